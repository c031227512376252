//! The aggregate: its trees, Definition 1 over pvbns, contexts and contents; then each volume.

use std::collections::BTreeMap;
use std::rc::Rc;

use everglade_format::context::block_and_slot as context_slot;
use everglade_format::{Block, Context, Dbn, FileId, Owner, Pvbn, Tag, metafile};

use crate::bad::{Bad, BadBlocks, report_bad, report_copy};
use crate::contents::{self, Wrong};
use crate::files::{self, Files};
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::labels::Labels;
use crate::media::Media;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::reference::{Reference, References};
use crate::report::{Counts, Phase, Progress};
use crate::usage::{Claims, Frontiers, Number, Usage};
use crate::{rows, tree, volume};

/// Bad blocks of volumes that are kept to be named by the files they belong to; further ones are
/// reported under their containers.
const BAD_BLOCKS_MAX: usize = 1 << 16;

/// Verifies everything below the superblock.
pub(crate) fn check(
    media: &Media<'_>,
    labels: &Labels,
    findings: &mut Findings,
    progress: &mut dyn FnMut(Progress),
) -> Counts {
    let superblock = &labels.superblock;
    let fs = FileSystem {
        has_lost: false,
        media,
        cp: superblock.cp,
        inside: None,
    };
    let mut report_progress = |phase, done| {
        progress(Progress {
            phase,
            done,
            total: superblock.blocks_used,
        });
    };
    report_progress(Phase::Trees, 0);
    let walk = |references: &mut References, findings: &mut Findings| {
        let root = &superblock.inode_file;
        files::walk(&fs, root, superblock.next_file, findings, references)
    };
    let mut references = References::new(0);
    let files = walk(&mut references, findings);
    let claims = Claims {
        blocks_used: superblock.blocks_used,
        areas_used: Some(superblock.areas_used),
        area_blocks: media.geometry.area_blocks(),
        frontiers: Frontiers::Extents(&superblock.frontiers),
        may_be_restored: false,
    };
    let mut usage = Usage::new(&fs, &files, claims);
    let mut blocks = Blocks::new(&fs, &files);
    let touched = std::mem::take(&mut references.touched);
    for (position, window) in touched.into_iter().enumerate() {
        if position > 0 || window > 0 {
            references = References::new(window);
            findings.mute(true);
            walk(&mut references, findings);
            findings.mute(false);
        }
        references.sort();
        usage.window(&references, findings, &mut |findings, number| {
            blocks.check_contexts(number, findings);
        });
        blocks.verify(&references, findings, &mut |done| {
            report_progress(Phase::Contents, done);
        });
    }
    usage.finish(findings);
    let mut counts = Counts {
        devices: labels.members.len() as u64,
        blocks: media.geometry.block_count(),
        blocks_used: usage.used,
        blocks_verified: blocks.verified,
        files: files.inodes.all.len() as u64,
        overflow_blocks: files.overflow,
        ..Counts::default()
    };
    drop(references);
    volume::check_all(
        &fs,
        &files,
        blocks.bad,
        findings,
        &mut counts,
        &mut |done| {
            report_progress(Phase::Volumes, done);
        },
    );
    counts
}

/// Facts about each block, besides its number.
struct Blocks<'b> {
    fs: &'b FileSystem<'b>,
    files: &'b Files,
    /// The last block of the context map that was read; `None` if it cannot be read.
    contexts: Option<(u64, Option<Option<Rc<Block>>>)>,
    verified: u64,
    bad: BadBlocks,
}

impl<'b> Blocks<'b> {
    fn new(fs: &'b FileSystem<'b>, files: &'b Files) -> Self {
        Blocks {
            fs,
            files,
            contexts: None,
            verified: 0,
            bad: BTreeMap::new(),
        }
    }

    fn check_contexts(&mut self, number: &Number<'_>, findings: &mut Findings) {
        // Two owners cannot both have the context; that there are two was reported.
        let [reference] = number.references else {
            return;
        };
        // Blocks in the overflow file keep the context of their old owner.
        if reference.is_overflow_leaf() {
            return;
        }
        let (leaf, slot) = context_slot(Pvbn(number.number));
        let Some(block) = self.context_block(leaf) else {
            return;
        };
        let expected = expected_context(reference);
        let found = block.as_ref().map(|it| Context::decode_from(it, slot));
        if found == Some(Ok(expected)) {
            return;
        }
        let object = self.files.object_of(self.fs, reference.file);
        let place = reference.place_in_aggregate();
        let wanted = context_text(&expected);
        match found {
            Some(Ok(found)) if (found.file, found.owner) == (expected.file, expected.owner) => {
                let expected = format_args!("tag {} in its context", expected.tag);
                findings.add(Kind::ContextTag, &object, place, expected, found.tag);
            }
            Some(Ok(found)) => {
                let found = context_text(&found);
                findings.add(Kind::ContextOwner, &object, place, wanted, found);
            }
            Some(Err(damage)) => {
                findings.add(Kind::ContextMissing, &object, place, wanted, damage);
            }
            None => {
                let found = "a hole in the context map";
                findings.add(Kind::ContextMissing, &object, place, wanted, found);
            }
        }
    }

    fn context_block(&mut self, leaf: u64) -> Option<Option<Rc<Block>>> {
        if let Some((kept, block)) = &self.contexts
            && *kept == leaf
        {
            return block.clone();
        }
        let inode = self.files.metafile(metafile::CONTEXT_MAP)?;
        let block = tree::leaf_at(self.fs, inode, leaf).ok();
        self.contexts = Some((leaf, block.clone()));
        block
    }

    /// Reads the leaves that the walk took for granted, and all blocks of groups on each drive.
    fn verify(
        &mut self,
        references: &References,
        findings: &mut Findings,
        done: &mut dyn FnMut(u64),
    ) {
        let Blocks {
            fs,
            files,
            verified,
            bad,
            ..
        } = self;
        let is_volume = |file: FileId| files.names.of.get(&file).is_some_and(|name| !name.hidden);
        let note = |reference: &Reference, wrong: Wrong| {
            let fault = match wrong {
                Wrong::Everywhere(_) if reference.is_walked() => return,
                Wrong::Everywhere(fault) => fault,
                Wrong::Copy(copy) => {
                    report_copy(fs, files, reference, &copy, findings);
                    return;
                }
            };
            if is_volume(reference.file) && bad.len() < BAD_BLOCKS_MAX {
                let reference = *reference;
                let key = (reference.file, reference.index());
                bad.insert(key, Bad { reference, fault });
            } else {
                report_bad(fs, files, reference, &fault, findings);
            }
        };
        contents::verify(fs.media, references, note, |blocks| {
            *verified += blocks;
            done(*verified);
        });
        let media = fs.media;
        let in_use = references.list.iter().map(|it| Pvbn(it.number));
        rows::verify(
            media.storage,
            &media.rows,
            &media.geometry,
            in_use,
            |wrong| {
                let place = ProblemPlace {
                    member: Some(wrong.member),
                    dbn: Some(Dbn(wrong.stripe)),
                    ..ProblemPlace::NONE
                };
                let expected = "the parity of its stripe's data";
                findings.add(
                    Kind::ParityWrong,
                    &Object::Aggregate,
                    place,
                    expected,
                    "another content",
                );
            },
        );
    }
}

fn expected_context(reference: &Reference) -> Context {
    let file = reference.file;
    if reference.is_user_leaf() {
        let vvbn = reference.index();
        Context {
            file,
            owner: Owner::Container { vvbn },
            tag: reference.tag,
        }
    } else {
        let (level, index) = (reference.level(), reference.index());
        Context {
            file,
            owner: Owner::File { level, index },
            tag: Tag(0),
        }
    }
}

/// A context for people.
pub(crate) fn context_text(context: &Context) -> String {
    match context.owner {
        Owner::File { level, index } => {
            format!(
                "context file {}, level {level}, block {index}",
                context.file
            )
        }
        Owner::Container { vvbn } => format!(
            "context container {}, vvbn {vvbn}, tag {}",
            context.file, context.tag
        ),
    }
}
