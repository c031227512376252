//! The command line. What a flag means is decided where it is used; here is only how it is written.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Parser, Subcommand};
use everglade_server::config::{
    AcceptRollback, IoMode, IscsiSettings, NbdSettings, NvmeSettings, Pinning, Switch, TcpListen,
    UnixListen, Window,
};
use everglade_server::openapi::Role;
use everglade_server::{Ablation, Interval, Name, Raid, Settings, Size};

/// A copy-on-write storage server in user space: thin volumes on pooled files or devices, served
/// over NBD, iSCSI and NVMe/TCP.
#[derive(Debug, Parser)]
#[command(name = "everglade", version, disable_help_subcommand = true)]
#[command(
    after_help = "Start with 'everglade serve'; it prints how to connect.\n\
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 daemon unreachable, 4 not found, 5 conflict,\n\
    6 needs --yes or would lose data, 7 no space, 8 unhealthy, 9 outcome unknown."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the daemon keeps its files [default: /var/lib/everglade for root, else
    /// $XDG_DATA_HOME/everglade]
    #[arg(long, global = true, value_name = "DIR", env = "EVERGLADE_DATA_DIR")]
    #[arg(hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Configuration file [default: /etc/everglade/everglade.toml for root, else
    /// $XDG_CONFIG_HOME/everglade/everglade.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "EVERGLADE_CONFIG")]
    #[arg(hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,

    /// Socket of the daemon [default: run/api.sock in the data directory]
    #[arg(long, global = true, value_name = "PATH", env = "EVERGLADE_SOCKET")]
    #[arg(hide_env_values = true)]
    pub(crate) socket: Option<PathBuf>,

    /// Address of a daemon on another machine, such as https://store:9811 [default: this machine]
    #[arg(long, global = true, value_name = "URL", env = "EVERGLADE_ENDPOINT")]
    #[arg(hide_env_values = true)]
    pub(crate) endpoint: Option<String>,

    /// File of the token for --endpoint, mode 0600
    #[arg(long, global = true, value_name = "FILE", env = "EVERGLADE_TOKEN_FILE")]
    #[arg(hide_env_values = true)]
    pub(crate) token_file: Option<PathBuf>,

    /// Authority that vouches for --endpoint, in PEM [default: those that this machine trusts]
    #[arg(long, global = true, value_name = "FILE", env = "EVERGLADE_CA")]
    #[arg(hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,

    /// Endpoint, token and authority by a name of profiles.toml, beside the configuration file of
    /// the user
    #[arg(long, global = true, value_name = "NAME", env = "EVERGLADE_PROFILE")]
    #[arg(hide_env_values = true)]
    pub(crate) profile: Option<String>,

    /// Confirm an operation that destroys data
    #[arg(long, global = true, env = "EVERGLADE_YES", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) yes: bool,

    /// Print JSON instead of text
    #[arg(long, global = true, env = "EVERGLADE_JSON", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,

    /// Print results and errors only
    #[arg(long, global = true, env = "EVERGLADE_QUIET", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) quiet: bool,
}

impl Global {
    /// Returns whether a daemon is named that is to do the work.
    pub(crate) fn names_daemon(&self) -> bool {
        self.socket.is_some() || self.endpoint.is_some() || self.profile.is_some()
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the storage server; it fills an empty data directory with a volume and a 16 GiB disk
    Serve(Serve),
    /// Verify aggregates while no server runs; change nothing
    Check(Check),
    /// Read all metadata, and derive what is damaged from the rest; a running server goes on
    /// serving
    Repair(Repair),
    /// Check or show the configuration
    Config {
        /// What to do.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Print the help of the program, of a noun or of a verb
    Help(Help),
    /// Print what an error code means and what to do
    Explain(Explain),
    /// Print the versions of the program and of its formats
    Version,
    /// Print the completion script of a shell
    Completion(Completion),
    /// Print the manual, or write one page for each verb
    Man(Man),
    /// Print a part of the reference; the project's documents are made with it
    #[command(hide = true)]
    Reference(Reference),
    #[command(flatten)]
    Client(everglade_cli::Verb),
}

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Address for NBD over TCP: IP:PORT, :PORT on the loopback (:0 picks one), or off
    /// [default: 127.0.0.1:10809]
    #[arg(
        long,
        value_name = "ADDR",
        env = "EVERGLADE_NBD_TCP",
        hide_env_values = true
    )]
    pub(crate) nbd_tcp: Option<TcpListen>,

    /// Socket for NBD, or off [default: run/nbd.sock in the data directory]
    #[arg(
        long,
        value_name = "PATH",
        env = "EVERGLADE_NBD_UNIX",
        hide_env_values = true
    )]
    pub(crate) nbd_unix: Option<UnixListen>,

    /// Address for iSCSI over TCP, usually 127.0.0.1:3260; port as for NBD [default: off]
    #[arg(
        long,
        value_name = "ADDR",
        env = "EVERGLADE_ISCSI_TCP",
        hide_env_values = true
    )]
    pub(crate) iscsi_tcp: Option<TcpListen>,

    /// File of the CHAP secrets of iSCSI: lines of initiator NAME SECRET, mode 0600
    #[arg(
        long,
        value_name = "FILE",
        env = "EVERGLADE_ISCSI_SECRETS",
        hide_env_values = true
    )]
    pub(crate) iscsi_secrets: Option<PathBuf>,
    /// Address for NVMe/TCP, or off [default: off]
    #[arg(
        long,
        value_name = "ADDR",
        env = "EVERGLADE_NVME_TCP",
        hide_env_values = true
    )]
    pub(crate) nvme_tcp: Option<TcpListen>,

    /// Address for the discovery service of NVMe/TCP; needs --nvme-tcp [default: off]
    #[arg(
        long,
        value_name = "ADDR",
        env = "EVERGLADE_NVME_DISCOVERY_TCP",
        hide_env_values = true
    )]
    pub(crate) nvme_discovery_tcp: Option<TcpListen>,

    /// Socket for administrators, or off [default: run/api.sock in the data directory]
    #[arg(
        long,
        value_name = "PATH",
        env = "EVERGLADE_API_UNIX",
        hide_env_values = true
    )]
    pub(crate) api_unix: Option<UnixListen>,

    /// Address for administrators over TCP, who need tokens [default: off]
    #[arg(
        long,
        value_name = "ADDR",
        env = "EVERGLADE_API_TCP",
        hide_env_values = true
    )]
    pub(crate) api_tcp: Option<TcpListen>,

    /// File of the tokens for --api-tcp: lines of NAME ROLE TOKEN, mode 0600
    #[arg(
        long,
        value_name = "FILE",
        env = "EVERGLADE_API_TOKENS",
        hide_env_values = true
    )]
    pub(crate) api_tokens: Option<PathBuf>,

    /// Directory with server-cert.pem and server-key.pem for --api-tcp [default: no encryption]
    #[arg(
        long,
        value_name = "DIR",
        env = "EVERGLADE_API_TLS_CERTIFICATES",
        hide_env_values = true
    )]
    pub(crate) api_tls_certificates: Option<PathBuf>,

    /// What browsers of this machine may do in the console without a token: read-only, operator or
    /// admin; at http://localhost:9811 unless --api-tcp is given [default: a token is needed]
    #[arg(
        long,
        value_name = "ROLE",
        env = "EVERGLADE_CONSOLE_LOOPBACK",
        hide_env_values = true
    )]
    pub(crate) console_loopback: Option<Role>,

    /// Address for metrics and health, or off [default: 127.0.0.1:9810, if it is free]
    #[arg(
        long,
        value_name = "ADDR",
        env = "EVERGLADE_METRICS_TCP",
        hide_env_values = true
    )]
    pub(crate) metrics_tcp: Option<TcpListen>,

    /// Device for the journal alone, of the aggregate made at first start [default: none]
    #[arg(
        long,
        value_name = "PATH",
        env = "EVERGLADE_JOURNAL_DEVICE",
        hide_env_values = true
    )]
    pub(crate) journal_device: Option<PathBuf>,

    /// Size of each half of that journal, 16MiB to 4GiB [default: 2 % of the aggregate, 16MiB to
    /// 256MiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "EVERGLADE_JOURNAL_HALF_SIZE",
        hide_env_values = true
    )]
    pub(crate) journal_half_size: Option<Size>,

    /// Cap for all memory of the process, at least 256MiB [default: 1GiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "EVERGLADE_MEMORY",
        hide_env_values = true
    )]
    pub(crate) memory: Option<Size>,

    /// Data plane threads [default: one per core, at most 8]
    #[arg(
        long,
        value_name = "N",
        env = "EVERGLADE_REACTORS",
        hide_env_values = true
    )]
    pub(crate) reactors: Option<usize>,

    /// Keep each data plane thread on a processor of its own: auto (if there is exactly one for
    /// each), off [default: auto]
    #[arg(
        long,
        value_name = "WAY",
        env = "EVERGLADE_PIN",
        hide_env_values = true
    )]
    pub(crate) pin: Option<Pinning>,

    /// How to do device I/O: auto, uring, threads [default: auto]
    #[arg(long, value_name = "WAY", env = "EVERGLADE_IO", hide_env_values = true)]
    pub(crate) io: Option<IoMode>,

    /// Longest time between consistency points [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        env = "EVERGLADE_CP_INTERVAL",
        hide_env_values = true
    )]
    pub(crate) cp_interval: Option<Interval>,

    /// A mechanism to switch off, for benchmarks
    #[arg(long, value_name = "NAME")]
    pub(crate) ablation: Vec<Ablation>,

    /// How long an operation on a drive may take before the drive is left out, if another drive has
    /// the same blocks [default: 30s]
    #[arg(
        long,
        value_name = "TIME",
        env = "EVERGLADE_DRIVE_TIMEOUT",
        hide_env_values = true
    )]
    pub(crate) drive_timeout: Option<Interval>,

    /// Time from the beginning of a scrub to that of the next one; 0 for never [default: 7d]
    #[arg(
        long,
        value_name = "TIME",
        env = "EVERGLADE_SCRUB_INTERVAL",
        hide_env_values = true
    )]
    pub(crate) scrub_interval: Option<Interval>,

    /// How long deleted LUNs and volumes can come back; 0 for not at all [default: 1d]
    #[arg(
        long,
        value_name = "TIME",
        env = "EVERGLADE_TRASH_KEEP",
        hide_env_values = true
    )]
    pub(crate) trash_keep: Option<Interval>,

    /// Empty the emptiest area of a parity group that has no free one: 'on' or 'off' [default: off]
    #[arg(
        long,
        value_name = "SWITCH",
        env = "EVERGLADE_GARDEN_ON_DEMAND",
        hide_env_values = true
    )]
    pub(crate) garden_on_demand: Option<Switch>,

    /// Put in order what clients read in order and does not lie in order: 'on' or 'off' [default:
    /// on]
    #[arg(
        long,
        value_name = "SWITCH",
        env = "EVERGLADE_GARDEN_WRITE_AFTER_READ",
        hide_env_values = true
    )]
    pub(crate) garden_write_after_read: Option<Switch>,

    /// Part of the day, in UTC, in which gardening may move blocks, such as 22:00-06:00 [default:
    /// always]
    #[arg(
        long,
        value_name = "WINDOW",
        env = "EVERGLADE_GARDEN_WINDOW",
        hide_env_values = true
    )]
    pub(crate) garden_window: Option<Window>,

    /// Snapshot policy of new volumes for which no other is given, or 'none' [default: default]
    #[arg(
        long,
        value_name = "POLICY",
        env = "EVERGLADE_SNAPSHOT_POLICY",
        hide_env_values = true
    )]
    pub(crate) snapshot_policy: Option<Name>,

    /// Devices of the aggregate made at first start: empty directories, regular files or block
    /// devices, or 'none' to make no aggregate [default: a directory in the data directory]
    #[arg(
        long,
        value_name = "PATH,PATH,…",
        env = "EVERGLADE_DEVICES",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) devices: Vec<PathBuf>,

    /// How they protect each other: none, mirror, single, double or triple [default: none]
    #[arg(
        long,
        value_name = "RAID",
        env = "EVERGLADE_RAID",
        hide_env_values = true
    )]
    pub(crate) raid: Option<Raid>,

    /// Drives of each group [default: of a mirror 2; with parity all]
    #[arg(
        long,
        value_name = "N",
        env = "EVERGLADE_GROUP_SIZE",
        hide_env_values = true,
        value_parser = clap::value_parser!(u64).range(2..=31)
    )]
    pub(crate) group_size: Option<u64>,

    /// Size of the thin aggregate made at first start [default: 64GiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "EVERGLADE_AGGREGATE_SIZE",
        hide_env_values = true
    )]
    pub(crate) aggregate_size: Option<Size>,

    /// Size of the thin disk made at first start [default: 16GiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "EVERGLADE_LUN_SIZE",
        hide_env_values = true
    )]
    pub(crate) lun_size: Option<Size>,

    /// Serve AGGREGATE from an older copy of its devices, which is at consistency point CP. Use the
    /// value that the refusal names, for one start
    #[arg(long, value_name = "AGGREGATE@CP")]
    pub(crate) accept_rollback: Vec<AcceptRollback>,

    /// Open the mirror AGGREGATE although drives are missing that may have newer data; what only
    /// they have is lost. For one start
    #[arg(
        long,
        value_name = "AGGREGATE",
        env = "EVERGLADE_DEGRADED",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) degraded: Vec<Name>,
}

impl Serve {
    /// What flags and environment say.
    pub(crate) fn settings(&self, global: &Global) -> Settings {
        Settings {
            data_dir: global.data_dir.clone(),
            memory: self.memory,
            reactors: self.reactors,
            pin: self.pin,
            io: self.io,
            nbd: NbdSettings {
                tcp: self.nbd_tcp,
                unix: self.nbd_unix.clone(),
                // The rest is said in the file only.
                ..NbdSettings::default()
            },
            iscsi: IscsiSettings {
                tcp: self.iscsi_tcp,
                secrets: self.iscsi_secrets.clone(),
                ..IscsiSettings::default()
            },
            nvme: NvmeSettings {
                tcp: self.nvme_tcp,
                discovery_tcp: self.nvme_discovery_tcp,
                ..NvmeSettings::default()
            },
            api_unix: self.api_unix.clone(),
            api_tcp: self.api_tcp,
            api_tokens: self.api_tokens.clone(),
            api_tls_certificates: self.api_tls_certificates.clone(),
            console_loopback: self.console_loopback,
            metrics_tcp: self.metrics_tcp,
            journal_device: self.journal_device.clone(),
            journal_half_size: self.journal_half_size,
            devices: self.devices.clone(),
            raid: self.raid,
            group_size: self.group_size,
            aggregate_size: self.aggregate_size,
            lun_size: self.lun_size,
            cp_interval: self.cp_interval,
            drive_timeout: self.drive_timeout,
            scrub_interval: self.scrub_interval,
            trash_keep: self.trash_keep,
            garden_on_demand: self.garden_on_demand,
            garden_write_after_read: self.garden_write_after_read,
            garden_window: self.garden_window,
            snapshot_policy: self.snapshot_policy.clone(),
            accept_rollback: self.accept_rollback.clone(),
            degraded: self.degraded.clone(),
        }
    }
}

/// Verbs of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Check whether a daemon with these flags, this environment and this file would start
    #[command(after_help = "Exit code: 0 yes, 1 no.")]
    Check(Serve),
    /// Print all effective settings as a configuration file
    Show(Serve),
}

/// Options of `help`.
#[derive(Debug, clap::Args)]
pub(crate) struct Help {
    /// A noun, or a noun and a verb [default: the program]
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// Options of `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// A code, such as EVG-4003 or 4003 [default: list all]
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}

/// Options of `completion`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    /// For which
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write one page for each verb into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Options of `reference`.
#[derive(Debug, clap::Args)]
pub(crate) struct Reference {
    /// Which part
    #[arg(value_enum, value_name = "PART")]
    pub(crate) part: Part,
}

/// Parts of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The REST interface as OpenAPI.
    Openapi,
    /// Every path, as a table.
    Paths,
    /// Every metric, as a table.
    Metrics,
    /// The command line.
    CommandLine,
}

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 clean, 1 problems found, 2 cannot read.")]
pub(crate) struct Check {
    /// Aggregates to verify [default: all]
    #[arg(value_name = "AGGREGATE")]
    pub(crate) aggregates: Vec<String>,
}

/// Options of `repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A running server repairs while its clients work. Without one, this command \
    opens the\n\
    aggregates itself. Data of LUNs is not read: it cannot be derived.\n\
    Exit code: 0 nothing is left damaged, 1 something cannot be derived."
)]
pub(crate) struct Repair {
    /// Aggregates to repair [default: all]
    #[arg(value_name = "AGGREGATE")]
    pub(crate) aggregates: Vec<Name>,

    /// Return as soon as the server has begun
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn globals_may_stand_anywhere() {
        for words in [
            ["everglade", "--data-dir", "/d", "serve"],
            ["everglade", "serve", "--data-dir", "/d"],
        ] {
            let args = Args::try_parse_from(words).expect("good usage");
            assert_eq!(args.global.data_dir, Some(PathBuf::from("/d")));
        }
    }

    #[test]
    fn several_mirrors_may_be_opened_degraded() {
        for words in [
            &["everglade", "serve", "--degraded", "a", "--degraded", "b"][..],
            &["everglade", "serve", "--degraded", "a,b"],
        ] {
            let args = Args::try_parse_from(words).expect("good usage");
            let Verb::Serve(serve) = &args.verb else {
                panic!("another verb");
            };
            let settings = serve.settings(&args.global);
            let names: Vec<&str> = settings.degraded.iter().map(Name::as_str).collect();
            assert_eq!(names, ["a", "b"]);
        }
        assert!(Args::try_parse_from(["everglade", "serve", "--degraded", "a b"]).is_err());
    }

    #[test]
    fn values_are_understood_while_parsing() {
        let words = [
            "everglade",
            "serve",
            "--nbd-tcp",
            ":0",
            "--memory",
            "512MiB",
            "--io",
            "threads",
            "--pin",
            "off",
        ];
        let Verb::Serve(serve) = Args::try_parse_from(words).expect("good usage").verb else {
            panic!("another verb");
        };
        assert_eq!(serve.memory, Some(Size::mib(512)));
        assert_eq!(serve.io, Some(IoMode::Threads));
        assert_eq!(serve.pin, Some(Pinning::Off));
        for bad in [
            ["--memory", "lots"],
            ["--nbd-tcp", "everywhere"],
            ["--cp-interval", "soon"],
        ] {
            let words = ["everglade", "serve", bad[0], bad[1]];
            assert!(Args::try_parse_from(words).is_err(), "{bad:?}");
        }
    }
}
