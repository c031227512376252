//! Tests of the configuration: sources, defaults, bounds, and errors of the file.

use std::path::{Path, PathBuf};

use super::{Config, ConfigError, IoMode, Pinning, Settings, TcpListen, UnixListen, file};
use crate::{Interval, Size};

fn said(data_dir: &str) -> Settings {
    Settings {
        data_dir: Some(PathBuf::from(data_dir)),
        ..Settings::default()
    }
}

fn complete(settings: Settings) -> Config {
    Config::complete(settings).expect("a configuration that can be served")
}

fn refused(settings: Settings) -> String {
    Config::complete(settings)
        .expect_err("a refusal")
        .to_string()
}

fn parse(text: &str) -> Result<Settings, ConfigError> {
    file::parse(Path::new("e.toml"), text)
}

fn parse_error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn defaults_are_those_of_the_conventions() {
    let config = complete(said("/srv/e"));
    assert_eq!(config.data_dir, Path::new("/srv/e"));
    assert_eq!(config.memory, Size::gib(1));
    assert!((1..=8).contains(&config.reactors));
    assert_eq!(config.io, IoMode::Auto);
    assert_eq!(config.pin, Pinning::Auto);
    assert_eq!(
        config.nbd.tcp.map(|tcp| tcp.to_string()),
        Some("127.0.0.1:10809".to_owned())
    );
    assert_eq!(config.nbd.unix, Some(PathBuf::from("/srv/e/run/nbd.sock")));
    assert_eq!(config.nbd.connections_max, 1024);
    assert_eq!(config.api_unix, Some(PathBuf::from("/srv/e/run/api.sock")));
    assert_eq!(config.cp_interval, Interval::seconds(10));
    assert_eq!(config.snapshot_policy, "default");
    assert_eq!(config.first_start.aggregate_size, Size::gib(64));
    assert_eq!(config.first_start.lun_size, Size::gib(16));
}

#[test]
fn the_upper_layer_wins_key_by_key() {
    let upper = Settings {
        memory: Some(Size::gib(2)),
        ..Settings::default()
    };
    let lower = Settings {
        memory: Some(Size::gib(3)),
        reactors: Some(3),
        pin: Some(Pinning::Off),
        ..said("/low")
    };
    let config = complete(upper.over(lower));
    assert_eq!(config.memory, Size::gib(2));
    assert_eq!(config.reactors, 3);
    assert_eq!(config.pin, Pinning::Off);
    assert_eq!(config.data_dir, Path::new("/low"));
}

#[test]
fn a_relative_data_directory_becomes_absolute() {
    assert!(complete(said("here")).data_dir.is_absolute());
}

#[test]
fn other_commands_find_the_daemon_with_the_options_that_are_named() {
    let options = |settings: Settings| complete(settings).options_of_clients();
    assert_eq!(options(said("/srv/e")), "--data-dir /srv/e ");
    assert_eq!(
        options(said("/srv/my e's")),
        "--data-dir '/srv/my e'\\''s' "
    );
    let elsewhere = Settings {
        api_unix: Some(UnixListen::At("/run/e.sock".into())),
        ..said("/srv/e")
    };
    assert_eq!(options(elsewhere), "--socket /run/e.sock ");
    let usual = super::place::data_dir().expect("a home");
    let usual = usual.to_str().expect("UTF-8");
    assert_eq!(options(said(usual)), "");
}

#[test]
fn values_out_of_bounds_are_refused_by_name() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = said("/srv/e");
        change(&mut settings);
        refused(settings)
    };
    assert!(with(|s| s.memory = Some(Size::mib(255))).contains("memory is 255.0 MiB"));
    assert!(with(|s| s.reactors = Some(0)).contains("reactors is 0; expected 1 to 64"));
    assert!(with(|s| s.reactors = Some(65)).contains("reactors is 65"));
    assert!(with(|s| s.nbd.connections_max = Some(0)).contains("nbd.connections_max"));
    assert!(with(|s| s.cp_interval = Some(Interval::millis(0))).contains("cp.interval is 0s"));
    assert!(with(|s| s.lun_size = Some(Size(4097))).contains("a multiple of 4096"));
    assert!(with(|s| s.aggregate_size = Some(Size::mib(1))).contains("aggregate-size"));
}

#[test]
fn a_server_without_a_door_is_refused() {
    let mut settings = said("/srv/e");
    settings.nbd.tcp = Some(TcpListen::Off);
    assert_eq!(complete(settings.clone()).nbd.tcp, None);
    settings.nbd.unix = Some(UnixListen::Off);
    assert!(refused(settings).contains("no client could connect"));
}

#[test]
fn a_socket_path_over_the_kernels_limit_is_refused_with_a_way_out() {
    let long = format!("/srv/{}", "d".repeat(95));
    let error = refused(said(&long));
    assert!(error.contains("at most 107"), "{error}");
    assert!(error.contains("--nbd-unix"), "{error}");
    let mut without = said(&long);
    without.nbd.unix = Some(UnixListen::Off);
    assert!(refused(without.clone()).contains("--api-unix off"));
    without.api_unix = Some(UnixListen::Off);
    complete(without);
}

#[test]
fn the_file_says_everything_flags_can() {
    let settings = parse(
        "data_dir = '/srv/e'\nmemory = '2GiB'\nreactors = 2\n\
         [nbd]\ntcp = ':0'\nunix = 'off'\nconnections_max = 7\n\
         [api]\nunix = '/run/e.sock'\n[cp]\ninterval = '2s'\n",
    )
    .expect("a good file");
    assert_eq!(settings.memory, Some(Size::gib(2)));
    assert_eq!(settings.reactors, Some(2));
    assert_eq!(settings.nbd.unix, Some(UnixListen::Off));
    assert_eq!(settings.nbd.connections_max, Some(7));
    assert_eq!(
        settings.api_unix,
        Some(UnixListen::At(PathBuf::from("/run/e.sock")))
    );
    assert_eq!(settings.cp_interval, Some(Interval::seconds(2)));
    assert_eq!(parse("").expect("an empty file"), Settings::default());
}

#[test]
fn an_unknown_key_is_an_error_with_its_line_and_a_suggestion() {
    let error = parse_error("memory = '1G'\n[nbd]\ntpc = ':0'\n");
    assert_eq!(
        error,
        "e.toml:3: unknown key 'nbd.tpc'; did you mean 'nbd.tcp'?"
    );
    let error = parse_error("frobnicate = 1");
    assert!(error.contains("known keys are data_dir, memory"), "{error}");
    let error = parse_error("[nbd.tcp]\nport = 1");
    assert!(error.contains("found a table"), "{error}");
}

#[test]
fn administration_from_elsewhere_has_its_files() {
    let complete = |api: Settings| Config::resolve(api.over(said("/srv/e")), None);
    let tcp = || Settings {
        api_tcp: Some(":0".parse().expect("an address")),
        ..Settings::default()
    };
    // Tokens can be made later.
    let api = complete(tcp()).expect("good").api_tcp.expect("on");
    assert_eq!(api.tokens, None);
    let whole = Settings {
        api_tokens: Some(PathBuf::from("/t")),
        api_tls_certificates: Some(PathBuf::from("/c")),
        ..tcp()
    };
    let api = complete(whole).expect("whole").api_tcp.expect("on");
    assert_eq!(api.tls_certificates, Some(PathBuf::from("/c")));
    assert_eq!(
        complete(Settings::default()).expect("default").api_tcp,
        None
    );
}

#[test]
fn a_journal_has_bounds() {
    for (half, part) in [("8MiB", "16.0 MiB to"), ("16777217", "multiple of 4096")] {
        let settings = Settings {
            journal_half_size: Some(half.parse().expect("a size")),
            ..said("/srv/e")
        };
        let error = Config::resolve(settings, None).expect_err(half).to_string();
        assert!(
            error.contains("journal.half_size") && error.contains(part),
            "{error}"
        );
    }
    let settings = parse("[journal]\ndevice = '/dev/pmem0'\nhalf_size = '64MiB'").expect("good");
    assert_eq!(settings.journal_device, Some(PathBuf::from("/dev/pmem0")));
    assert_eq!(settings.journal_half_size, Some(Size::mib(64)));
}

#[test]
fn wrong_values_and_torn_files_name_their_line() {
    assert!(parse_error("memory = 'lots'").starts_with("e.toml:1: 'memory': 'lots' is not a size"));
    assert!(parse_error("\nreactors = 1.5").starts_with("e.toml:2: 'reactors': found a fraction"));
    assert!(parse_error("reactors = -1").starts_with("e.toml:1: 'reactors'"));
    assert!(parse_error("memory = '1G'\n[nb").starts_with("e.toml:2: not TOML"));
}

#[test]
fn a_missing_file_is_an_error_only_when_it_was_asked_for() {
    let error = Config::resolve(said("/srv/e"), Some(Path::new("/nonexistent/e.toml")))
        .expect_err("asked for")
        .to_string();
    assert!(
        error.contains("cannot read the configuration file"),
        "{error}"
    );
}
