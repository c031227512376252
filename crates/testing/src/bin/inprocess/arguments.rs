//! What the program is asked for.

use std::path::PathBuf;

use everglade_engine::Options;

pub(crate) const USAGE: &str = "usage: inprocess random|sequential --folder DIR [--reactors N] \
    [--depth N] [--seconds S] [--lun-mib N] [--memory-mib N] [--luns-together N] \
    [--stage-blocks N]";

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Blocks of 4 KiB anywhere.
    Random,
    /// 128 KiB at a time, in order; each reactor has its own part of the LUN.
    Sequential,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) job: Job,
    /// A directory for the device, made and removed.
    pub(crate) folder: PathBuf,
    /// Writes under way on each reactor.
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    pub(crate) lun_bytes: u64,
    pub(crate) options: Options,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let job = match words.next().as_deref() {
            Some("random") => Job::Random,
            Some("sequential") => Job::Sequential,
            _ => return Err("random, or sequential?".to_owned()),
        };
        let mut arguments = Arguments {
            job,
            folder: PathBuf::new(),
            depth: if job == Job::Random { 32 } else { 8 },
            seconds: 10.0,
            lun_bytes: 1 << 30,
            options: Options {
                reactors: 2,
                ..Options::default()
            },
        };
        while let Some(option) = words.next() {
            let value = words.next().ok_or(format!("{option} needs a value"))?;
            let number = || {
                let parsed = value.parse::<u64>();
                parsed.map_err(|_| format!("'{value}' is not a number"))
            };
            let count = || number().map(|it| usize::try_from(it.max(1)).unwrap_or(1));
            match option.as_str() {
                "--folder" => arguments.folder = value.into(),
                "--reactors" => arguments.options.reactors = count()?,
                "--depth" => arguments.depth = count()?,
                "--seconds" => {
                    let seconds = value.parse();
                    arguments.seconds = seconds.map_err(|_| format!("'{value}' is no number"))?;
                }
                "--lun-mib" => arguments.lun_bytes = number()? << 20,
                "--memory-mib" => arguments.options.memory_bytes = number()? << 20,
                "--stage-blocks" => arguments.options.stage_blocks = count()?,
                "--luns-together" => arguments.options.luns_together = count()?,
                _ => return Err(format!("did not understand '{option}'")),
            }
        }
        if arguments.folder.as_os_str().is_empty() {
            return Err("where? --folder".to_owned());
        }
        Ok(arguments)
    }
}
