//! The media of an aggregate, as its reactors share them: the present layout, and how much of the
//! devices a consistency point may use.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use everglade_env::lock::RwLock;
use everglade_format::Pvbn;

use crate::media::layout::{Layout, Place};
use crate::media::next::Turn;
use crate::media::share::DeviceShare;

/// See the module's documentation.
pub(crate) struct Media {
    layout: RwLock<Arc<Layout>>,
    /// True while somebody prepares a change of the devices.
    is_changing: Arc<AtomicBool>,
    pub(crate) share: DeviceShare,
}

impl Media {
    pub(crate) fn new(layout: Layout) -> Media {
        Media {
            share: DeviceShare::new(layout.devices.len()),
            layout: RwLock::new(Arc::new(layout)),
            is_changing: Arc::default(),
        }
    }

    /// Returns the present layout.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.read().clone()
    }

    /// Begins a change of the devices; `None` while another one is under way.
    pub(crate) fn begin_change(&self) -> Option<Turn> {
        Turn::take(&self.is_changing)
    }

    /// Replaces the layout by the next one. In the freeze only.
    pub(crate) fn set_layout(&self, next: Arc<Layout>) {
        let mut layout = self.layout.write();
        assert!(next.follows(&layout), "a layout only grows");
        self.share.set_devices(next.devices.len());
        *layout = next;
    }

    /// Returns the place of a block; `None` if no extent has the block.
    pub(crate) fn locate(&self, pvbn: Pvbn) -> Option<Place> {
        self.layout.read().locate(pvbn)
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::DeviceId;

    use super::*;
    use crate::media::layout::tests::{three_devices, two_devices};

    #[test]
    fn blocks_of_an_added_device_have_a_place_from_then_on() {
        let media = Media::new(two_devices());
        let known = media.locate(Pvbn(700));
        assert_eq!(media.locate(Pvbn(1024)), None);
        media.set_layout(Arc::new(three_devices()));
        assert_eq!(media.locate(Pvbn(700)), known);
        let place = media.locate(Pvbn(1024)).expect("of the third device");
        assert_eq!((place.device, place.run), (DeviceId(6), 512));
    }

    #[test]
    #[should_panic(expected = "a layout only grows")]
    fn a_layout_of_another_epoch_is_refused() {
        Media::new(three_devices()).set_layout(Arc::new(two_devices()));
    }
}
