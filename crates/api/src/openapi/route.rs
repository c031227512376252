//! The table of paths: requests, the permissions that they need, and their answers.

use std::fmt;

/// Role of a token. Each role includes the permissions of the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May read everything.
    ReadOnly,
    /// Make, change and delete volumes and LUNs.
    Operator,
    /// Give devices to aggregates, and take them back.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::ReadOnly => "read-only",
            Role::Operator => "operator",
            Role::Admin => "admin",
        })
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let all = [Role::ReadOnly, Role::Operator, Role::Admin];
        let found = all.into_iter().find(|role| role.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is not a role; use read-only, operator or admin"))
    }
}

/// Good answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// 200 with this.
    Found(&'static str),
    /// 200 with this and an `ETag`, or 304.
    Tagged(&'static str),
    /// 201 with this.
    Made(&'static str),
    /// 201 with this object, or 200 if it exists with the same settings.
    MadeOrFound(&'static str),
    /// 201 with the first, or 200 with the second.
    MadeOr(&'static str, &'static str),
    /// 202 with this.
    Accepted(&'static str),
    /// 204: there is nothing left to show.
    Gone,
}

impl Answers {
    /// Status and schema of each.
    #[must_use]
    pub fn rows(self) -> Vec<(u16, Option<&'static str>)> {
        match self {
            Answers::Found(schema) => vec![(200, Some(schema))],
            Answers::Tagged(schema) => vec![(200, Some(schema)), (304, None)],
            Answers::Made(schema) => vec![(201, Some(schema))],
            Answers::MadeOrFound(schema) => vec![(200, Some(schema)), (201, Some(schema))],
            Answers::MadeOr(made, found) => vec![(200, Some(found)), (201, Some(made))],
            Answers::Accepted(schema) => vec![(202, Some(schema))],
            Answers::Gone => vec![(204, None)],
        }
    }

    /// Returns the names of all schemas of the answer.
    pub(super) fn schema(self) -> impl Iterator<Item = &'static str> {
        let rows = self.rows().into_iter();
        rows.filter_map(|(_, schema)| schema)
            .filter(|schema| !schema.is_empty())
    }
}

/// One method of one path.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Method, in capitals.
    pub method: &'static str,
    /// Summary in a few words.
    pub summary: &'static str,
    /// Least role that the request needs.
    pub role: Role,
    /// Schema of the body.
    pub body: Option<&'static str>,
    /// Good answers.
    pub answers: Answers,
    /// Schema of the items, if the answer is a collection.
    pub item: Option<&'static str>,
    /// Boolean query parameters, with their meanings.
    pub flags: &'static [(&'static str, &'static str)],
    /// Other query parameters of its own.
    pub parameters: &'static [Parameter],
}

/// A query parameter with a value.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name of the parameter in the query.
    pub name: &'static str,
    /// Summary in a few words.
    pub summary: &'static str,
    /// Whether the parameter is required.
    pub is_required: bool,
    /// A whole number of at least this; else a name.
    pub least: Option<u64>,
}

impl Route {
    const fn get(path: &'static str, summary: &'static str, schema: &'static str) -> Route {
        Route {
            path,
            method: "GET",
            summary,
            role: Role::ReadOnly,
            body: None,
            answers: Answers::Found(schema),
            item: None,
            flags: &[],
            parameters: &[],
        }
    }

    const fn one(path: &'static str, summary: &'static str, schema: &'static str) -> Route {
        let route = Route::get(path, summary, schema);
        Route {
            answers: Answers::Tagged(schema),
            ..route
        }
    }

    const fn list(
        path: &'static str,
        summary: &'static str,
        schema: &'static str,
        item: &'static str,
    ) -> Route {
        let route = Route::get(path, summary, schema);
        Route {
            item: Some(item),
            ..route
        }
    }

    const fn change(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        body: Option<&'static str>,
        answers: Answers,
    ) -> Route {
        Route {
            path,
            method,
            summary,
            role: Role::Operator,
            body,
            answers,
            item: None,
            flags: &[],
            parameters: &[],
        }
    }

    const fn with_flags(self, flags: &'static [(&'static str, &'static str)]) -> Route {
        Route { flags, ..self }
    }

    const fn by_admin(self) -> Route {
        Route {
            role: Role::Admin,
            ..self
        }
    }

    const fn with_parameters(self, parameters: &'static [Parameter]) -> Route {
        Route { parameters, ..self }
    }

    /// Returns whether the path accepts a query.
    #[must_use]
    pub fn takes_parameters(&self) -> bool {
        self.item.is_some() || !self.flags.is_empty() || !self.parameters.is_empty()
    }

    /// Returns whether the request changes an existing object, and so honours `If-Match`.
    #[must_use]
    pub fn is_edit(&self) -> bool {
        let edits = ["/rename", "/add", "/resize", "/modify"];
        self.method == "PATCH"
            || self.method == "DELETE"
            || edits.iter().any(|edit| self.path.ends_with(edit))
    }

    /// Returns whether the request may change something, and so honours `Idempotency-Key`.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.method != "GET"
    }

    /// Returns the media type of good answers.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        "application/json"
    }
}

const AGGREGATES: &str = "/v1/aggregates";
const AGGREGATE: &str = "/v1/aggregates/{aggregate}";
const VOLUMES: &str = "/v1/volumes";
const VOLUME: &str = "/v1/volumes/{volume}";
const LUNS: &str = "/v1/volumes/{volume}/luns";
const LUN: &str = "/v1/volumes/{volume}/luns/{lun}";
const VOLUME_SCAN: &str = "/v1/volumes/{volume}/scan";
const VOLUME_POLICY: &str = "/v1/volumes/{volume}/policy";
/// Parameters of [`crate::CompareSnapshot`].
const COMPARISON: &[Parameter] = &[
    Parameter {
        name: "lun",
        summary: "the LUN to compare",
        is_required: true,
        least: None,
    },
    Parameter {
        name: "until",
        summary: "the other snapshot; the active image if absent",
        is_required: false,
        least: None,
    },
    Parameter {
        name: "offset",
        summary: "first byte to compare",
        is_required: false,
        least: Some(0),
    },
    Parameter {
        name: "length",
        summary: "bytes to compare; to the end if absent",
        is_required: false,
        least: Some(1),
    },
    Parameter {
        name: "max_records",
        summary: "at most this many ranges, 1 to 10000",
        is_required: false,
        least: Some(1),
    },
];
const POLICIES: &str = "/v1/policies";
const POLICY: &str = "/v1/policies/{policy}";
const QOS_POLICY: &str = "/v1/qos-policies/{policy}";
const DISCONNECT: (&str, &str) = (
    "disconnect",
    "also if clients have its LUNs open, which lose their connection",
);
const PURGE: (&str, &str) = ("purge", "for good: not into the trash");
const HOSTS: &str = "/v1/hosts";
const HOST: &str = "/v1/hosts/{host}";
const HOST_GROUPS: &str = "/v1/host-groups";
const HOST_GROUP: &str = "/v1/host-groups/{group}";
const SPARES: &str = "/v1/spares";
const MAPPINGS: &str = "/v1/mappings";
const SNAPSHOTS: &str = "/v1/volumes/{volume}/snapshots";
const SNAPSHOT: &str = "/v1/volumes/{volume}/snapshots/{snapshot}";

/// All routes of the management interface.
pub const ROUTES: &[Route] = &[
    Route::get(
        "/v1/version",
        "program, and versions of its formats",
        "Version",
    ),
    Route::get(
        "/v1/status",
        "health, and what to do about problems",
        "Status",
    ),
    Route::get(
        "/v1/statistics",
        "counters since the daemon started",
        "Statistics",
    ),
    Route::list(
        "/v1/history",
        "administrative changes, oldest first",
        "History",
        "Change",
    ),
    Route::list(
        "/v1/events",
        "recent events, oldest first; with 'Accept: text/event-stream', a stream of new events",
        "Events",
        "Event",
    ),
    Route::list("/v1/jobs", "background jobs", "Jobs", "Job"),
    Route::get("/v1/jobs/{id}", "one job", "Job"),
    Route::change(
        "POST",
        "/v1/jobs/{id}/actions/cancel",
        "cancels a job, if its kind allows that",
        None,
        Answers::Found("Job"),
    ),
    Route::list(
        AGGREGATES,
        "aggregates, in order of creation",
        "Aggregates",
        "Aggregate",
    ),
    Route::change(
        "POST",
        AGGREGATES,
        "creates an aggregate; with dry_run, only shows what would happen",
        Some("CreateAggregate"),
        Answers::MadeOr("Aggregate", "CreationPlan"),
    )
    .by_admin(),
    Route::one(AGGREGATE, "one aggregate, with its devices", "Aggregate"),
    Route::change(
        "DELETE",
        AGGREGATE,
        "deletes an aggregate without volumes; its devices are cleared",
        None,
        Answers::Gone,
    )
    .with_flags(&[
        (
            "discard_volumes",
            "also delete an aggregate that has volumes, or that cannot be opened",
        ),
        DISCONNECT,
    ])
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/rename",
        "renames an aggregate",
        Some("Rename"),
        Answers::Found("Aggregate"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/add",
        "adds devices to an aggregate; with dry_run, only shows what would happen",
        Some("AddDevices"),
        Answers::Found("Growth"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/resize",
        "makes devices of an aggregate larger, or takes what they became larger by; with dry_run, \
        only shows what would happen",
        Some("ResizeAggregate"),
        Answers::Found("Growth"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/replace",
        "puts a new drive into the place of a drive of a mirror; with dry_run, only shows what \
        would happen",
        Some("ReplaceDrive"),
        Answers::Found("Replacement"),
    )
    .by_admin(),
    Route::get(
        "/v1/aggregates/{aggregate}/removal",
        "the removal of devices that is under way",
        "Removal",
    ),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/remove",
        "moves all blocks of a device, or of its whole group, to the others, and removes it then; \
        with dry_run, only shows what would be left",
        Some("RemoveDevice"),
        Answers::Found("Removal"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/stop-removal",
        "lets devices stay that are being removed; what has moved stays where it is",
        None,
        Answers::Found("Removal"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/export",
        "stops an aggregate, closes its devices and forgets it; nothing on them is lost",
        None,
        Answers::Found("ExportedAggregate"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/actions/import",
        "takes up an aggregate that is on these devices; with dry_run, only shows which one",
        Some("ImportAggregate"),
        Answers::MadeOr("Aggregate", "ImportPlan"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/actions/scan",
        "looks for aggregates by their devices, in these folders; reads only",
        Some("ScanFolders"),
        Answers::Found("FoundAggregates"),
    )
    .by_admin(),
    Route::get(
        "/v1/aggregates/{aggregate}/repair",
        "the progress and the outcome of the last repair",
        "Repair",
    ),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/repair",
        "reads all metadata, and derives what is damaged from the rest",
        None,
        Answers::Accepted("Job"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/stop-repair",
        "stops a repair; mended blocks stay mended",
        None,
        Answers::Found("Repair"),
    )
    .by_admin(),
    Route::get(
        "/v1/aggregates/{aggregate}/scrub",
        "the progress and the outcome of the last scrub",
        "Scrub",
    ),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/scrub",
        "reads every block in use from every drive, and writes again what one of them has wrong; \
        a paused scrub goes on",
        None,
        Answers::Found("Scrub"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/pause-scrub",
        "lets a scrub wait until it is started again",
        None,
        Answers::Found("Scrub"),
    )
    .by_admin(),
    Route::get(
        "/v1/aggregates/{aggregate}/garden",
        "what moves blocks in an aggregate, and what it has done since the aggregate was opened",
        "Garden",
    ),
    Route::get(
        "/v1/aggregates/{aggregate}/space-map",
        "how full each part of the devices is, and how whole the free space is, when it was last \
        counted",
        "SpaceMap",
    ),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/map-space",
        "counts the blocks in use of each allocation area, and the free runs; one under way \
        begins anew",
        None,
        Answers::Found("SpaceMap"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/clean",
        "moves blocks out of areas that are partly free, so that these are free as a whole; one \
        under way goes on with the new limit",
        Some("Clean"),
        Answers::Found("Garden"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/stop-gardening",
        "ends segment cleaning, a rebalance, the layout of a LUN and a space map; moved blocks \
        stay where they are",
        None,
        Answers::Found("Garden"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/pause-gardening",
        "pauses whatever moves blocks in an aggregate, except where clients need a whole area; it \
        stays paused after restarts",
        None,
        Answers::Found("Garden"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/resume-gardening",
        "lets gardening in an aggregate go on",
        None,
        Answers::Found("Garden"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/aggregates/{aggregate}/actions/rebalance",
        "moves blocks from fuller devices, or groups of drives, to emptier ones",
        None,
        Answers::Found("Garden"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/luns/{lun}/actions/layout",
        "moves the blocks of a LUN into its order, so that it is read in long runs; answers with \
        the garden of its aggregate",
        Some("PutInOrder"),
        Answers::Found("Garden"),
    ),
    Route::list(
        "/v1/limits",
        "limits of LUNs and volumes, and what they hold back",
        "Limits",
        "Limit",
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/luns/{lun}/actions/limit",
        "sets the limit of a LUN, which all its clients share; a body without a rate removes it",
        Some("SetLimit"),
        Answers::Found("Limit"),
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/actions/limit",
        "sets the limit of a volume, which the clients of all its LUNs share; a body without a \
        rate removes it",
        Some("SetLimit"),
        Answers::Found("Limit"),
    ),
    Route::list(
        "/v1/qos-policies",
        "policies of limits, by name",
        "QosPolicies",
        "QosPolicy",
    ),
    Route::get(QOS_POLICY, "one policy of limits", "QosPolicy"),
    Route::change(
        "PUT",
        QOS_POLICY,
        "makes a policy of limits, or changes it as a whole, for everything that follows it",
        Some("SetQosPolicy"),
        Answers::Found("QosPolicy"),
    ),
    Route::change(
        "DELETE",
        QOS_POLICY,
        "deletes a policy of limits that nothing follows",
        None,
        Answers::Gone,
    ),
    Route::list(
        SPARES,
        "spare drives, in the order in which they were added",
        "Spares",
        "Spare",
    ),
    Route::change(
        "POST",
        SPARES,
        "adds a spare drive, which takes the place of the first drive of a mirror that fails",
        Some("SpareDrive"),
        Answers::Found("Spare"),
    )
    .by_admin(),
    Route::change(
        "POST",
        "/v1/spares/actions/remove",
        "gives a spare drive up; nothing is written to it",
        Some("SpareDrive"),
        Answers::Gone,
    )
    .by_admin(),
    Route::list(
        "/v1/tokens",
        "tokens, without their secrets",
        "Tokens",
        "Token",
    ),
    Route::change(
        "POST",
        "/v1/tokens",
        "makes a token, which callers over TCP can use at once; the answer is the only place where \
        its secret is shown",
        Some("CreateToken"),
        Answers::Made("MadeToken"),
    )
    .by_admin(),
    Route::change(
        "DELETE",
        "/v1/tokens/{token}",
        "revokes a token; who uses it is refused from the next request on",
        None,
        Answers::Gone,
    )
    .by_admin(),
    Route::list(
        "/v1/trash",
        "LUNs, snapshots and volumes that were deleted and can come back, the oldest first",
        "Trash",
        "TrashItem",
    ),
    Route::change(
        "POST",
        "/v1/trash/{id}/actions/undelete",
        "takes an object out of the trash",
        Some("Undelete"),
        Answers::Found("Undeleted"),
    ),
    Route::change(
        "DELETE",
        "/v1/trash/{id}",
        "deletes an object for good that is in the trash",
        None,
        Answers::Accepted("Job"),
    ),
    Route::list(VOLUMES, "volumes, by name", "Volumes", "Volume"),
    Route::change(
        "POST",
        VOLUMES,
        "creates a volume, empty or as a clone of a snapshot",
        Some("CreateVolume"),
        Answers::Made("Volume"),
    ),
    Route::one(VOLUME, "one volume", "Volume"),
    Route::change(
        "PUT",
        VOLUME,
        "creates a volume unless it exists with the same settings",
        Some("PutVolume"),
        Answers::MadeOrFound("Volume"),
    ),
    Route::change(
        "PATCH",
        VOLUME,
        "changes when writes of a volume count as done, and its snapshot policy",
        Some("ModifyVolume"),
        Answers::Found("Volume"),
    ),
    Route::change(
        "DELETE",
        VOLUME,
        "puts a volume with all that it has into the trash",
        None,
        Answers::Accepted("Job"),
    )
    .with_flags(&[DISCONNECT, PURGE]),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/actions/rename",
        "renames a volume; connected clients stay connected, new connections need the new name",
        Some("Rename"),
        Answers::Found("Volume"),
    ),
    Route::list(LUNS, "LUNs of a volume, by name", "Luns", "Lun"),
    Route::change(
        "POST",
        LUNS,
        "creates a LUN",
        Some("CreateLun"),
        Answers::Made("Lun"),
    ),
    Route::one(LUN, "one LUN", "Lun"),
    Route::change(
        "PUT",
        LUN,
        "creates a LUN unless it exists with the same settings",
        Some("PutLun"),
        Answers::MadeOrFound("Lun"),
    ),
    Route::change(
        "PATCH",
        LUN,
        "enlarges a LUN or, with discard_beyond, shrinks it; clients see that when they connect \
        again",
        Some("ResizeLun"),
        Answers::Found("Lun"),
    ),
    Route::change(
        "DELETE",
        LUN,
        "puts a LUN into the trash",
        None,
        Answers::Accepted("Job"),
    )
    .with_flags(&[DISCONNECT, PURGE]),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/luns/{lun}/actions/rename",
        "renames a LUN; connected clients stay connected, new connections need the new name",
        Some("Rename"),
        Answers::Found("Lun"),
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/luns/{lun}/actions/clone",
        "clones a LUN inside its volume; the clone is complete when the job is done",
        Some("CloneLun"),
        Answers::Accepted("Job"),
    ),
    Route::list(
        SNAPSHOTS,
        "snapshots of a volume, in order of creation",
        "Snapshots",
        "Snapshot",
    ),
    Route::change(
        "POST",
        SNAPSHOTS,
        "takes a snapshot",
        Some("CreateSnapshot"),
        Answers::Made("Snapshot"),
    ),
    Route::one(SNAPSHOT, "one snapshot", "Snapshot"),
    Route::get(
        "/v1/volumes/{volume}/snapshots/{snapshot}/changes",
        "the parts of a LUN that differ from this snapshot",
        "SnapshotChanges",
    )
    .with_parameters(COMPARISON),
    Route::change(
        "PUT",
        SNAPSHOT,
        "takes a snapshot unless one of this name exists",
        None,
        Answers::MadeOrFound("Snapshot"),
    ),
    Route::change(
        "PATCH",
        SNAPSHOT,
        "renames a snapshot",
        Some("RenameSnapshot"),
        Answers::Found("Snapshot"),
    ),
    Route::change(
        "DELETE",
        SNAPSHOT,
        "puts a snapshot into the trash",
        None,
        Answers::Accepted("Job"),
    )
    .with_flags(&[PURGE]),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/snapshots/{snapshot}/actions/restore",
        "restores the snapshot, or one LUN of it; with dry_run, only shows what would happen",
        Some("RestoreSnapshot"),
        Answers::Found("Restored"),
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/snapshots/{snapshot}/actions/hold",
        "protects the snapshot from deletion",
        Some("HoldSnapshot"),
        Answers::Found("Snapshot"),
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/snapshots/{snapshot}/actions/release",
        "removes a hold",
        Some("HoldSnapshot"),
        Answers::Found("Snapshot"),
    ),
    Route::get(
        VOLUME_SCAN,
        "the background work for a volume's snapshots, and its pace",
        "Scan",
    ),
    Route::change(
        "PUT",
        VOLUME_SCAN,
        "slows, pauses or resumes that work",
        Some("SetScan"),
        Answers::Found("Scan"),
    ),
    Route::get(
        "/v1/volumes/{volume}/split",
        "the progress of a split",
        "Split",
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/actions/split",
        "starts or continues to split a clone from its parent",
        None,
        Answers::Accepted("Job"),
    ),
    Route::change(
        "POST",
        "/v1/volumes/{volume}/actions/stop-split",
        "stops a split; copied blocks stay",
        None,
        Answers::Found("Split"),
    ),
    Route::list(HOSTS, "hosts, by name", "Hosts", "Host"),
    Route::change(
        "POST",
        HOSTS,
        "creates a host: says what its connections are known by",
        Some("CreateHost"),
        Answers::Made("Host"),
    )
    .by_admin(),
    Route::one(HOST, "one host", "Host"),
    Route::change(
        "POST",
        "/v1/hosts/{host}/actions/modify",
        "changes what a host is known by; connections that are not the host's any more end",
        Some("ModifyHost"),
        Answers::Tagged("Host"),
    )
    .by_admin(),
    Route::change(
        "DELETE",
        HOST,
        "deletes a host that is in no group and in no mapping",
        None,
        Answers::Gone,
    )
    .by_admin(),
    Route::list(
        HOST_GROUPS,
        "groups of hosts, by name",
        "HostGroups",
        "HostGroup",
    ),
    Route::change(
        "POST",
        HOST_GROUPS,
        "creates a group of hosts",
        Some("CreateHostGroup"),
        Answers::Made("HostGroup"),
    )
    .by_admin(),
    Route::one(HOST_GROUP, "one group of hosts", "HostGroup"),
    Route::change(
        "POST",
        "/v1/host-groups/{group}/actions/modify",
        "adds hosts to a group, and removes others; connections that are not allowed any more end",
        Some("ModifyHostGroup"),
        Answers::Tagged("HostGroup"),
    )
    .by_admin(),
    Route::change(
        "DELETE",
        HOST_GROUP,
        "deletes a group of hosts that is in no mapping",
        None,
        Answers::Gone,
    )
    .by_admin(),
    Route::list(
        "/v1/sessions",
        "connections that have a LUN open, by LUN",
        "Sessions",
        "Session",
    ),
    Route::change(
        "POST",
        "/v1/access/plan",
        "which connections a change of a host, a group or a mapping would end; changes nothing",
        Some("AccessChange"),
        Answers::Found("AccessPlan"),
    ),
    Route::list(MAPPINGS, "mappings, by LUN", "Mappings", "Mapping"),
    Route::change(
        "POST",
        MAPPINGS,
        "maps a LUN to a host or a group: these may use it, and others that no mapping names may \
        not",
        Some("CreateMapping"),
        Answers::Made("Mapping"),
    )
    .by_admin(),
    Route::change(
        "DELETE",
        "/v1/volumes/{volume}/luns/{lun}/mappings/{to}",
        "removes a mapping; connections that are not allowed any more end",
        None,
        Answers::Gone,
    )
    .by_admin(),
    Route::list(POLICIES, "snapshot policies, by name", "Policies", "Policy"),
    Route::change(
        "POST",
        POLICIES,
        "creates a snapshot policy",
        Some("CreatePolicy"),
        Answers::Made("Policy"),
    ),
    Route::one(POLICY, "one snapshot policy", "Policy"),
    Route::change(
        "PATCH",
        POLICY,
        "changes what a policy takes and keeps, for all volumes that have it",
        Some("ModifyPolicy"),
        Answers::Found("Policy"),
    ),
    Route::change(
        "DELETE",
        POLICY,
        "deletes a snapshot policy that no volume has",
        None,
        Answers::Gone,
    ),
    Route::get(
        VOLUME_POLICY,
        "the snapshot policy of a volume, what it took, and when it takes the next snapshot",
        "VolumePolicy",
    ),
    Route::change(
        "PUT",
        VOLUME_POLICY,
        "sets or removes the snapshot policy of a volume",
        Some("SetPolicy"),
        Answers::Found("VolumePolicy"),
    ),
    Route::get("/v1/openapi.json", "this description", ""),
];
