//! The reader for people: what labels, superblocks, trees and blocks say, damaged or not.

use std::fmt;

use everglade_env::{DeviceId, Storage};
use everglade_format::config::{JournalRegion, hex};
use everglade_format::context::block_and_slot as context_slot;
use everglade_format::refcount::COUNTS_PER_BLOCK;
use everglade_format::snapshot::SNAPSHOTS_MAX;
use everglade_format::volume::{SnapshotRoots, Split};
use everglade_format::{
    Context, FileId, Header, Inode, Layer, Member, Owner, Pvbn, SnapshotRecord, bitmap, metafile,
};
use serde_json::{Map, Value};

use crate::aggregate::context_text;
use crate::clones;
use crate::files::{self, Files};
use crate::filesystem::{FileSystem, Inside};
use crate::findings::Findings;
use crate::labels::{self, Drive, Labels, Placed, Trouble};
use crate::media::Media;
use crate::problem::Object;
use crate::reference::References;
use crate::report::{role_text, state_text};
use crate::superblock::read_superblock;
use crate::tree::{self, File, Leaves, Visit};
use crate::unreadable::Unreadable;
use crate::usage::counts_of;

/// A heading, named facts under it, and further descriptions under those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Name of the described object.
    pub title: String,
    /// Facts.
    pub facts: Vec<(&'static str, String)>,
    /// Its parts.
    pub parts: Vec<Description>,
}

impl Description {
    fn new(title: impl ToString) -> Self {
        Description {
            title: title.to_string(),
            ..Description::default()
        }
    }

    fn fact(mut self, name: &'static str, value: impl ToString) -> Self {
        self.facts.push((name, value.to_string()));
        self
    }

    fn indented(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        writeln!(f, "{indent}{}", self.title)?;
        for (name, value) in &self.facts {
            writeln!(f, "{indent}  {name}: {value}")?;
        }
        self.parts
            .iter()
            .try_for_each(|part| part.indented(f, depth + 1))
    }

    /// The description for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("title".into(), self.title.clone().into());
        for (name, value) in &self.facts {
            object.insert(name.replace(' ', "_"), value.clone().into());
        }
        if !self.parts.is_empty() {
            let parts = self.parts.iter().map(Description::to_json).collect();
            object.insert("parts".into(), Value::Array(parts));
        }
        Value::Object(object)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.indented(f, 0)
    }
}

/// Every copy of the config record and of the superblocks. The secret is not shown.
///
/// # Errors
/// The labels do not lead to a superblock.
pub fn labels(storage: &dyn Storage, devices: &[DeviceId]) -> Result<Description, Unreadable> {
    let labels = labels::read(storage, devices, &mut Findings::deaf())?;
    let config = &labels.config;
    let mut out = Description::new(format!("aggregate {}", labels.name()))
        .fact("uuid", hex(&config.uuid))
        .fact("epoch", config.epoch)
        .fact("area blocks", config.area_blocks)
        .fact("reserve blocks", config.reserve_blocks)
        .fact("journal", journal_text(&config.journal))
        .fact("consistency point", labels.superblock.cp);
    let placed = labels.members.iter().enumerate();
    let members = placed.zip(&config.members);
    out.parts
        .extend(members.map(|((member, placed), entry)| member_part(member, placed, entry)));
    for stranger in &labels.strangers {
        let title = format!("device {} is no member", stranger.device.0);
        let part = Description::new(title).fact("label", &stranger.found);
        out.parts.push(part);
    }
    for (index, extent) in config.extents.iter().enumerate() {
        let part = Description::new(format!("extent {index}"))
            .fact("pvbns", format!("{} + {}", extent.base, extent.length))
            .fact("member", extent.member)
            .fact("first dbn", extent.first_dbn);
        out.parts.push(part);
    }
    for (site, copy) in &labels.records {
        let state = match copy.valid() {
            Some(record) if record.epoch > config.epoch => format!(
                "config record of epoch {}, which no superblock names",
                record.epoch
            ),
            Some(record) => format!("config record of epoch {}", record.epoch),
            None => copy.trouble(),
        };
        out.parts.push(copy_part(site, &state));
    }
    for (site, copy) in &labels.superblocks {
        let state = match copy.valid() {
            Some(it) => format!("superblock of consistency point {}", it.cp),
            None => copy.trouble(),
        };
        out.parts.push(copy_part(site, &state));
    }
    Ok(out)
}

fn member_part(member: usize, placed: &Placed, entry: &Member) -> Description {
    let device = placed
        .device
        .map(|device| format!("is device {}", device.0));
    let device = device.unwrap_or_else(|| "has no device".to_owned());
    let part = Description::new(format!("member {member} {device}"))
        .fact("uuid", hex(&entry.uuid))
        .fact("blocks", entry.size_blocks)
        .fact("first data dbn", entry.data_first);
    let seat = entry.seat;
    if seat.group == 0 {
        return part;
    }
    let read = match &placed.trouble {
        None => "yes".to_owned(),
        Some(Trouble::Behind) => "no, as it missed writes".to_owned(),
        Some(Trouble::Absent) => "no, as its device was not given".to_owned(),
        Some(Trouble::Unfit(trouble)) => format!("no: {trouble}"),
    };
    part.fact("group", seat.group)
        .fact("column", seat.column)
        .fact("role", role_text(seat))
        .fact("state", state_text(seat))
        .fact("read", read)
}

fn journal_text(region: &JournalRegion) -> String {
    match region.blocks {
        0 => "none".into(),
        blocks => format!(
            "dbns {} + {blocks} of member {}",
            region.first, region.member
        ),
    }
}

fn copy_part(site: &labels::Site, state: &str) -> Description {
    let title = format!("device {} byte {}", site.device.0, site.offset);
    Description::new(title)
        .fact("slot", site.slot)
        .fact("holds", state)
}

/// The newest superblock, the files of the aggregate, and those of each volume.
///
/// # Errors
/// The labels do not lead to a superblock.
pub fn superblock(storage: &dyn Storage, devices: &[DeviceId]) -> Result<Description, Unreadable> {
    let labels = labels::read(storage, devices, &mut Findings::deaf())?;
    let media = Media::new(storage, &labels);
    let it = &labels.superblock;
    let mut out = Description::new(format!("superblock of consistency point {}", it.cp))
        .fact("blocks used", it.blocks_used)
        .fact("areas used", it.areas_used)
        .fact("frontiers", format!("{:?}", it.frontiers))
        .fact("next file", it.next_file)
        .fact("journal generation", it.journal_generation)
        .fact("journal sequence", it.journal_sequence)
        .fact("stopped cleanly", it.clean)
        .fact("written seconds", it.written_seconds);
    let aggregate = aggregate_of(&media, &labels);
    let files = quiet_walk(&aggregate, &it.inode_file);
    let root = &it.inode_file;
    out.parts
        .push(inode_part(root, &aggregate.metafile(root.id)));
    for inode in files.inodes.all.values() {
        let object = files.object_of(&aggregate, inode.id);
        let mut part = inode_part(inode, &object);
        if let Some(inside) = inside_of(&aggregate, &files, inode) {
            part.parts = volume_parts(&media, &aggregate, inside, &files);
        }
        out.parts.push(part);
    }
    Ok(out)
}

fn volume_parts<'a>(
    media: &'a Media<'a>,
    aggregate: &'a FileSystem<'a>,
    inside: Inside<'a>,
    sides: &Files,
) -> Vec<Description> {
    let volume = FileSystem {
        has_lost: false,
        media,
        cp: aggregate.cp,
        inside: Some(inside),
    };
    let read = read_superblock(&volume, &mut Default::default(), &mut Findings::deaf());
    let Some((superblock, _)) = read else {
        return vec![Description::new("volume superblock unreadable")];
    };
    let head = Description::new(format!("volume superblock of {}", superblock.cp))
        .fact("blocks used", superblock.blocks_used)
        .fact("frontier", superblock.frontier)
        .fact("next file", superblock.next_file)
        .fact("sync", format!("{:?}", superblock.sync));
    let files = quiet_walk(&volume, &superblock.inode_file);
    let root = &superblock.inode_file;
    let mut parts = vec![head, inode_part(root, &volume.metafile(root.id))];
    parts.extend(files.inodes.all.values().map(|inode| {
        let object = files.object_of(&volume, inode.id);
        inode_part(inode, &object)
    }));
    parts.extend(snapshots_part(
        &volume,
        aggregate,
        &superblock.snapshots,
        sides,
    ));
    parts
}

/// The snapshots of a volume by its superblock and its table; empty if it never had any.
fn snapshots_part(
    volume: &FileSystem<'_>,
    aggregate: &FileSystem<'_>,
    roots: &SnapshotRoots,
    sides: &Files,
) -> Option<Description> {
    let (summary, table) = roots.files?;
    let none_or = |id: Option<u32>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let mut out = Description::new("snapshots")
        .fact("summary map", format!("file {summary}"))
        .fact("table", format!("file {table}"))
        .fact("release file", none_or(roots.release.map(|file| file.0)))
        .fact(
            "parent of the active image",
            none_or(roots.parent.map(|id| id.0)),
        )
        .fact("next snapshot", roots.next)
        .fact("exclusive to the active image", roots.exclusive)
        .fact("scan", format!("{:?}", roots.scan))
        .fact("held back", format!("{} %", roots.held_back));
    if let Some(cloning) = roots.lun_clone {
        let text = format!(
            "file {} of snapshot {} becomes file {}, level-1 blocks below {} are shared",
            cloning.from, cloning.source, cloning.to, cloning.next
        );
        out = out.fact("LUN being cloned", text);
    }
    if let Some((parent, snapshot)) = roots.base {
        out = out.fact("base", format!("snapshot {snapshot} of volume {parent}"));
    }
    if roots.split != Split::None {
        out = out.fact("split", format!("{:?}", roots.split));
    }
    let Some(inode) = sides.inodes.all.get(&table) else {
        out.parts.push(Description::new("the table is not there"));
        return Some(out);
    };
    // A table that is longer than any can be is damaged; some of it shows that.
    for block in 0..inode.block_count().min(4 * SNAPSHOTS_MAX as u64) {
        let Ok(Some(leaf)) = tree::leaf_at(aggregate, inode, block) else {
            continue;
        };
        match SnapshotRecord::decode(&leaf) {
            Ok(records) => {
                let records = records.into_iter().map(|(_, record)| record);
                out.parts
                    .extend(records.map(|record| snapshot_part(volume, &record)));
            }
            Err(damage) => {
                let text = format!("records of block {block}: {damage}");
                out.parts.push(Description::new(text));
            }
        }
    }
    Some(out)
}

fn snapshot_part(volume: &FileSystem<'_>, record: &SnapshotRecord) -> Description {
    let holds: Vec<&str> = record.holds.iter().map(|hold| hold.tag.as_str()).collect();
    let object = volume.image(&record.name, record).object();
    Description::new(object)
        .fact("id", record.id)
        .fact("state", format!("{:?}", record.state))
        .fact("parent", record.parent.map_or(0, |id| id.0))
        .fact("consistency point", record.cp)
        .fact("created seconds", record.seconds)
        .fact("blocks used", record.blocks_used)
        .fact("exclusive", record.exclusive)
        .fact("pending deletions", record.pending)
        .fact("unfolded", record.is_unfolded)
        .fact("in the delete pass", record.is_in_pass)
        .fact("holds", holds.join(", "))
}

fn inode_part(inode: &Inode, object: &Object) -> Description {
    let part = Description::new(object)
        .fact("kind", format!("{:?}", inode.kind))
        .fact("size bytes", inode.size_bytes)
        .fact("levels", inode.levels)
        .fact("blocks", inode.blocks);
    match &inode.inline {
        Some(data) => part.fact("data in the inode", hex(data)),
        None => part.fact("root", format!("{:?}", inode.root)),
    }
}

/// The tree of a file: of the aggregate if `volume` is `None`. At most `limit` blocks are listed.
///
/// # Errors
/// The labels do not lead to a superblock.
pub fn tree(
    storage: &dyn Storage,
    devices: &[DeviceId],
    volume: Option<FileId>,
    file: FileId,
    limit: usize,
) -> Result<Description, Unreadable> {
    let labels = labels::read(storage, devices, &mut Findings::deaf())?;
    let media = Media::new(storage, &labels);
    let aggregate = aggregate_of(&media, &labels);
    let root = &labels.superblock.inode_file;
    let files = quiet_walk(&aggregate, root);
    let Some(volume) = volume else {
        return Ok(tree_part(&aggregate, &files, root, file, limit));
    };
    let container = files.inodes.all.get(&volume);
    let inside = container.and_then(|container| inside_of(&aggregate, &files, container));
    let Some(inside) = inside else {
        return Ok(Description::new(format!("no volume {volume}")));
    };
    let volume = FileSystem {
        has_lost: false,
        media: &media,
        cp: aggregate.cp,
        inside: Some(inside),
    };
    let read = read_superblock(&volume, &mut Default::default(), &mut Findings::deaf());
    Ok(match read {
        Some((superblock, _)) => {
            let root = &superblock.inode_file;
            let files = quiet_walk(&volume, root);
            tree_part(&volume, &files, root, file, limit)
        }
        None => Description::new("volume superblock unreadable"),
    })
}

fn tree_part(
    fs: &FileSystem<'_>,
    files: &Files,
    root: &Inode,
    id: FileId,
    limit: usize,
) -> Description {
    let found = files.inodes.all.get(&id);
    let Some(inode) = found.or((id == metafile::INODE_FILE).then_some(root)) else {
        return Description::new(format!("no file {id}"));
    };
    let object = files.object_of(fs, id);
    let mut out = inode_part(inode, &object);
    let file = File {
        inode,
        object: &object,
        leaves: Leaves::Opaque,
        range: 0..u64::MAX,
        bounded: false,
    };
    let mut findings = Findings::new();
    let mut more = 0u64;
    tree::walk(fs, &file, &mut findings, &mut |_, visit| {
        let Visit::Reference {
            level,
            index,
            pointer,
        } = visit
        else {
            return;
        };
        if out.parts.len() >= limit {
            more += 1;
            return;
        }
        let mut part = Description::new(format!("level {level} block {index}"));
        if fs.layer() == Layer::Volume {
            part = part
                .fact("vvbn", pointer.vvbn)
                .fact("cached pvbn", pointer.pvbn);
        }
        if id == metafile::REFCOUNTS && level == 0 {
            part = part.fact("counts", counts_text(fs, inode, index));
        }
        let pvbn = fs.pvbn_of(&pointer);
        let pvbn = pvbn.map_or("none".into(), |pvbn| pvbn.to_string());
        out.parts
            .push(part.fact("pvbn", pvbn).fact("tag", pointer.tag));
    });
    if more > 0 {
        out.parts.push(Description::new(format!("and {more} more")));
    }
    let problems = findings.problems.iter().map(Description::new);
    out.parts.extend(problems);
    out
}

/// Counts of a block of a refcount file, for people.
fn counts_text(fs: &FileSystem<'_>, inode: &Inode, index: u64) -> String {
    const SHOWN: usize = 16;
    let first = index.saturating_mul(COUNTS_PER_BLOCK);
    let Some(counts) = counts_of(fs, inode, &(first..first.saturating_add(COUNTS_PER_BLOCK)))
    else {
        return "unreadable".into();
    };
    let shown = counts.iter().take(SHOWN);
    let mut text: Vec<String> = shown
        .map(|(vvbn, count)| format!("vvbn {vvbn}: {count}"))
        .collect();
    if counts.len() > SHOWN {
        text.push(format!("and {} more", counts.len() - SHOWN));
    }
    text.join(", ")
}

/// A block of the aggregate: its place, whether it is in use, its owner, and its contents.
///
/// # Errors
/// The labels do not lead to a superblock.
pub fn block(
    storage: &dyn Storage,
    devices: &[DeviceId],
    pvbn: Pvbn,
) -> Result<Description, Unreadable> {
    let labels = labels::read(storage, devices, &mut Findings::deaf())?;
    let media = Media::new(storage, &labels);
    let mut out = Description::new(format!("pvbn {pvbn}"));
    let Some(place) = media.geometry.locate(pvbn) else {
        return Ok(out.fact("place", "in no extent"));
    };
    let drives = media.drives_of(pvbn);
    let text = |drive: &Drive| {
        let Drive { member, device } = drive;
        format!("member {member} (device {}), dbn {}", device.0, place.dbn)
    };
    let places: Vec<String> = drives.iter().map(text).collect();
    out = out.fact("place", places.join("; "));
    let aggregate = aggregate_of(&media, &labels);
    let files = quiet_walk(&aggregate, &labels.superblock.inode_file);
    out = out.fact("in use", in_use(&aggregate, &files, pvbn));
    let (leaf, slot) = context_slot(pvbn);
    let map = files.metafile(metafile::CONTEXT_MAP);
    let contexts = map.map(|map| tree::leaf_at(&aggregate, map, leaf));
    if let Some(Ok(Some(contexts))) = contexts {
        out = match Context::decode_from(&contexts, slot) {
            Ok(context) => {
                let owner = files.object_of(&aggregate, context.file);
                let out = out
                    .fact("owner", owner)
                    .fact("context", context_text(&context));
                with_volume_owner(out, &media, &aggregate, &files, &context)
            }
            Err(damage) => out.fact("context", damage),
        };
    }
    if let [drive] = drives {
        return Ok(with_content(out, &media, *drive, pvbn));
    }
    for (drive, place) in drives.iter().zip(places) {
        let part = with_content(Description::new(place), &media, *drive, pvbn);
        out.parts.push(part);
    }
    Ok(out)
}

/// What a drive has in the place of a block.
fn with_content(out: Description, media: &Media<'_>, drive: Drive, pvbn: Pvbn) -> Description {
    match media.read_from(drive, pvbn) {
        Ok((tag, block)) => {
            let out = out.fact("tag", tag);
            match Header::decode(&block) {
                Ok(header) => out.fact("could be a header", format!("{header:?}")),
                Err(_) => out,
            }
        }
        Err(fault) => out.fact("content", format!("{fault:?}")),
    }
}

fn in_use(fs: &FileSystem<'_>, files: &Files, pvbn: Pvbn) -> &'static str {
    let bits = everglade_format::BITS_PER_BLOCK;
    let leaf = files
        .metafile(metafile::ACTIVE_MAP)
        .map(|map| tree::leaf_at(fs, map, pvbn.0 / bits));
    match leaf {
        Some(Ok(Some(block))) if bitmap::is_set(&block, pvbn.0 % bits) => "yes",
        Some(Ok(_)) => "no",
        Some(Err(_)) | None => "unknown",
    }
}

/// For a block of a volume, the file of the volume that refers to its vvbn.
fn with_volume_owner(
    out: Description,
    media: &Media<'_>,
    aggregate: &FileSystem<'_>,
    files: &Files,
    context: &Context,
) -> Description {
    let Owner::Container { vvbn } = context.owner else {
        return out;
    };
    let container = files.inodes.all.get(&context.file);
    let Some(inside) = container.and_then(|it| inside_of(aggregate, files, it)) else {
        return out;
    };
    let volume = FileSystem {
        has_lost: false,
        media,
        cp: aggregate.cp,
        inside: Some(inside),
    };
    let read = read_superblock(&volume, &mut Default::default(), &mut Findings::deaf());
    let Some((superblock, _)) = read else {
        return out;
    };
    let mut references = References::new(vvbn / crate::reference::WINDOW_BLOCKS);
    let root = &superblock.inode_file;
    let deaf = &mut Findings::deaf();
    let files = files::walk(&volume, root, superblock.next_file, deaf, &mut references);
    references.sort();
    let same = references.within(&(vvbn..vvbn + 1));
    same.iter().fold(out, |out, reference| {
        let object = files.object_of(&volume, reference.file);
        let place = reference.place_in_volume(None);
        out.fact("owner in the volume", format!("{object}, {place}"))
    })
}

fn aggregate_of<'a>(media: &'a Media<'a>, labels: &Labels) -> FileSystem<'a> {
    FileSystem {
        has_lost: false,
        media,
        cp: labels.superblock.cp,
        inside: None,
    }
}

fn inside_of<'a>(
    aggregate: &'a FileSystem<'a>,
    files: &Files,
    container: &'a Inode,
) -> Option<Inside<'a>> {
    let name = files.names.of.get(&container.id)?;
    (!name.hidden).then(|| Inside {
        volume: container.id,
        name: name.text.clone(),
        aggregate,
        container,
        above: clones::containers_above(aggregate, files, container),
    })
}

fn quiet_walk(fs: &FileSystem<'_>, root: &Inode) -> Files {
    // A window that no block is in, because references are not needed.
    let mut references = References::new(u64::from(u32::MAX));
    let mut deaf = Findings::deaf();
    files::walk(fs, root, FileId(u32::MAX), &mut deaf, &mut references)
}
