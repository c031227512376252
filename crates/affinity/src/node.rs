//! Nodes of the affinity tree, and typed handles to them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use crate::class::{Class, Kind};
use crate::word::Word;

/// Identity of a node: a serial number that is never reused, and its place among the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeId(pub(crate) u64);

impl NodeId {
    /// The published node of a reactor that never entered a leaf.
    pub(crate) const NONE: NodeId = NodeId(0);

    pub(crate) fn new(serial: u32, place: u32) -> NodeId {
        assert!(serial > 0, "serial 0 is NodeId::NONE");
        NodeId(u64::from(serial) << 32 | u64::from(place))
    }

    /// Index among the records.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "32 bits fit into any usize we run on"
    )]
    pub(crate) fn slab_index(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }
}

/// Cheap handle to one node, whatever its class. It stays valid when the node leaves the tree;
/// entering it is then refused.
#[derive(Clone)]
pub struct Node(Arc<Body>);

struct Body {
    word: Word,
    id: NodeId,
    class: Class,
    parent: Option<Node>,
}

impl Node {
    pub(crate) fn new(id: NodeId, class: Class, parent: Option<Node>) -> Node {
        Node(Arc::new(Body {
            word: Word::new(),
            id,
            class,
            parent,
        }))
    }

    /// Level of the node.
    #[must_use]
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// The node above; none for Serial.
    #[must_use]
    pub fn parent(&self) -> Option<&Node> {
        self.0.parent.as_ref()
    }

    /// This node is `other` or an ancestor of it.
    #[must_use]
    pub fn covers(&self, other: &Node) -> bool {
        let mut step = Some(other);
        while let Some(node) = step {
            if node == self {
                return true;
            }
            step = node.parent();
        }
        false
    }

    pub(crate) fn id(&self) -> NodeId {
        self.0.id
    }

    pub(crate) fn word(&self) -> &Word {
        &self.0.word
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Node {}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:x}", self.0.class, self.0.id.0)
    }
}

/// A [`Node`] whose class is known to the compiler.
pub struct Affinity<C: Kind> {
    node: Node,
    kind: PhantomData<fn() -> C>,
}

impl<C: Kind> Affinity<C> {
    pub(crate) fn new(node: Node) -> Affinity<C> {
        assert_eq!(
            node.class(),
            C::CLASS,
            "handle of another class than its node"
        );
        Affinity {
            node,
            kind: PhantomData,
        }
    }

    /// The node, when the class does not matter.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }
}

impl<C: Kind> Deref for Affinity<C> {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl<C: Kind> Clone for Affinity<C> {
    fn clone(&self) -> Affinity<C> {
        Affinity {
            node: self.node.clone(),
            kind: PhantomData,
        }
    }
}

impl<C: Kind> fmt::Debug for Affinity<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}
