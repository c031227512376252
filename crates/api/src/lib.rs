//! The interface between the daemon and its clients: requests, answers and error codes
//! (docs/reference/conventions.md#rest-and-metrics).
//!
//! A request is read strictly: an unknown, doubled, missing or ill-typed field is refused by name
//! ([`Fields`]), because a mistyped field that is silently dropped shows only when it is too late.
//! An answer is read leniently, so that an older client understands a newer daemon. Both carry
//! integers with their unit in the name, and every answer begins with [`SCHEMA_VERSION`].
//!
//! Nothing here knows the engine or a socket.

mod aggregate;
mod code;
mod comment;
mod comparison;
mod event;
mod fields;
mod filter;
mod garden;
mod growth;
mod history;
mod host;
mod job;
mod kind;
mod limit;
mod lun;
mod moment;
mod moving;
mod name;
pub mod openapi;
mod outcome;
pub mod picture;
mod plural;
mod policy;
mod problem;
mod raid;
mod removal;
mod repair;
mod replacement;
mod scan;
mod scrub;
mod session;
mod shell;
mod size;
mod snapshot;
mod space_map;
mod spare;
mod split;
mod statistics;
mod status;
mod token;
mod trash;
mod version;
mod volume;
mod work;

pub use aggregate::{
    Aggregate, AggregateState, Aggregates, ConsistencyPoints, Copies, CreateAggregate,
    CreationPlan, DEVICES_MAX, Damage, Device, DeviceKind, DeviceState, DriveFaults, Journal,
    PlannedDevice, Recovery, Stripes,
};
pub use code::Code;
pub use comment::Comment;
pub use comparison::{ChangedRange, CompareSnapshot, SnapshotChanges};
pub use event::{Event, EventKind, Events, Severity};
pub use fields::Fields;
pub use filter::{Filter, Found, NotAFilter, Relation, split as split_filter};
pub use garden::{
    AfterRead, Clean, Cleaning, Garden, GardeningState, LayoutPart, LunLayout, PutInOrder,
    Rebalance,
};
pub use growth::{AddDevices, GrownDevice, Growth, ResizeAggregate};
pub use history::{Change, History};
pub use host::{
    AccessChange, AccessChangeKind, AccessPlan, CreateHost, CreateHostGroup, CreateMapping, Host,
    HostGroup, HostGroups, Hosts, Mapping, MappingKind, Mappings, ModifyHost, ModifyHostGroup,
};
pub use job::{Job, JobState, Jobs};
pub use kind::Kind;
pub use limit::{Limit, Limits, QosPolicies, QosPolicy, SetLimit, SetQosPolicy};
pub use lun::{CloneLun, CreateLun, Lun, Luns, PutLun, ResizeLun};
pub use moment::Moment;
pub use moving::{
    ExportedAggregate, FoundAggregate, FoundAggregates, ImportAggregate, ImportPlan, ScanFolders,
};
pub use name::{LunName, Name, NotAName, Rename};
pub use outcome::{Outcome, Remembered};
pub use plural::counted;
pub use policy::{
    CreatePolicy, DEFAULT_POLICY, ModifyPolicy, NO_POLICY, Policies, Policy, SetPolicy, TimeOfDay,
    VolumePolicy, Weekday,
};
pub use problem::{CONTENT_TYPE as PROBLEM_CONTENT_TYPE, Problem, ProblemBody};
pub use raid::{GROUP_DATA_MAX, GROUP_SIZE_DEFAULT, GROUP_SIZE_MAX, Raid};
pub use removal::{Removal, RemovalState, RemoveDevice};
pub use repair::{Repair, RepairState};
pub use replacement::{CatchingUp, ReplaceDrive, Replacement};
pub use scan::{Scan, SetScan};
pub use scrub::{Scrub, ScrubState};
pub use session::{Session, Sessions};
pub use shell::shell_word;
pub use size::{NotASize, Size};
pub use snapshot::{
    CreateSnapshot, HoldSnapshot, RenameSnapshot, RestoreSnapshot, Restored, Snapshot,
    SnapshotName, Snapshots, Taken,
};
pub use space_map::{FreeRuns, MappedDevice, SpaceMap};
pub use spare::{Spare, SpareDrive, Spares};
pub use split::{Split, SplitState};
pub use statistics::{
    AggregateStatistics, CpuTime, DeviceOperation, DeviceStatistics, Operation, Statistics,
};
pub use status::{AggregateSummary, Condition, Health, Status};
pub use token::{CreateToken, MadeToken, Token, Tokens};
pub use trash::{Trash, TrashItem, TrashKind, Undelete, Undeleted};
pub use version::Version;
pub use volume::{CreateVolume, ModifyVolume, PutVolume, Sync, Volume, Volumes};
pub use work::Work;

use serde::{Deserialize, Serialize};

/// Port of the REST interface and the console where nothing else is said.
pub const PORT: u16 = 9811;

/// Version of the answers, incremented when an old client would misread a new answer.
pub const SCHEMA_VERSION: u32 = 1;

/// An answer with the version of its schema in front.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versioned<T> {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The answer itself.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Versioned<T> {
    /// Wraps an answer in the current schema.
    pub fn new(body: T) -> Versioned<T> {
        Versioned {
            schema_version: SCHEMA_VERSION,
            body,
        }
    }
}
