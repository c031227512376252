//! Lists as scripts want them: columns, conditions, order, exact numbers; and the same from REST.

use super::http;
use crate::manage::{ask, ask_json, refused, serve};
use crate::running::TestDir;

fn filled() -> (TestDir, crate::running::Server) {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "v", "--sync", "always"]);
    for (name, size) in [("v/a", "1GiB"), ("v/b", "2GiB"), ("v/c", "512MiB")] {
        ask(&dir, &["lun", "create", name, "--size", size]);
    }
    (dir, server)
}

#[test]
fn a_list_is_as_the_one_who_asks_wants_it() {
    let (dir, server) = filled();
    let shown = |args: &[&str]| ask(&dir, &[&["lun", "show"], args].concat());
    assert_eq!(
        shown(&[
            "--columns",
            "name,size",
            "--sort",
            "-size",
            "--no-header",
            "--where",
            "size>=512M"
        ]),
        "v/b    2.0 GiB\nv/a    1.0 GiB\nv/c  512.0 MiB\n"
    );
    assert_eq!(
        shown(&["--columns", "size", "--exact", "--where", "name=v/a"]),
        "      SIZE\n1073741824\n"
    );
    assert_eq!(
        shown(&["--where", "name~lun0", "--columns", "volume"]),
        "VOLUME\nvol0\n"
    );
    assert_eq!(
        shown(&[
            "--where",
            "size>=1.5GiB",
            "--columns",
            "name",
            "--no-header"
        ]),
        "v/b\n",
        "a fraction, as lists print it"
    );
    // What is left out is left out for programs too.
    let some = ask_json(&dir, &["lun", "show", "--where", "size>1GiB"]);
    let names: Vec<_> = some["luns"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|lun| &lun["name"])
        .collect();
    assert_eq!(names, ["b"]);
    let df = ask(
        &dir,
        &[
            "df",
            "--columns",
            "aggregate,logical,reserve,pending,shared,state",
            "--no-header",
        ],
    );
    assert!(
        df.starts_with("aggr0  3.6 GiB") && df.trim_end().ends_with("online"),
        "{df}"
    );
    for (args, part) in [
        (
            &["lun", "show", "--columns", "nmae"][..],
            "name, volume, size, used, nbd",
        ),
        (&["lun", "show", "--where", "nmae=1"], "--where"),
        (&["lun", "show", "--where", "name"], "COLUMN=VALUE"),
        (
            &["lun", "show", "--where", "size>bla"],
            "'bla' is not a size",
        ),
        (&["lun", "show", "--where", "size>=1.5GB"], "GiB"),
        (
            &["snapshot", "show", "--where", "created<yesterday"],
            "2026-11-25",
        ),
        (
            &["job", "show", "--where", "state=runing"],
            "running, done, failed",
        ),
        (&["df", "--where", "use%>half"], "percent"),
        (&["lun", "show", "v/a", "--where", "size>1"], "for lists"),
        (&["volume", "show", "--sort", "nmae"], "--sort"),
        (&["job", "show", "x"], "invalid value"),
        (&["top", "--interval", "0"], "0"),
        (&["event", "show", "--follow", "--exact"], "--exact"),
    ] {
        refused(&dir, args, 2, &[part]);
    }
    refused(&dir, &["job", "show", "7"], 4, &["no job 7"]);
    refused(&dir, &["job", "cancel", "7"], 4, &["no job 7"]);
    server.stop();
}

#[test]
fn rest_sorts_filters_and_pages_collections() {
    let (dir, server) = filled();
    let get = |path: &str| http::unix(&dir, "GET", path, "", "");
    let luns = get("/v1/volumes/v/luns?order_by=-size_bytes&fields=name&max_records=2");
    assert_eq!(luns.status, 200, "{luns:?}");
    let page = luns.json();
    assert_eq!(
        page["luns"],
        serde_json::json!([{"name": "b"}, {"name": "a"}])
    );
    assert_eq!(page["next_cursor"], "2");
    let rest = get("/v1/volumes/v/luns?order_by=-size_bytes&fields=name&cursor=2").json();
    assert_eq!(rest["luns"], serde_json::json!([{"name": "c"}]));
    let large = get("/v1/volumes/v/luns?size_bytes%3E=1.5GiB&fields=name").json();
    assert_eq!(large["luns"], serde_json::json!([{"name": "b"}]));
    let today = get("/v1/events?time%3E=1970-01-01&kind=daemon&max_records=1").json();
    assert_eq!(today["events"][0]["kind"], "daemon", "{today}");
    let always = get("/v1/volumes?sync=always&fields=name").json();
    assert_eq!(always["volumes"], serde_json::json!([{"name": "v"}]));
    for (path, code) in [
        ("/v1/volumes?nmae=v", "EVG-1002"),
        ("/v1/volumes?order_by=nmae", "EVG-1004"),
        ("/v1/volumes?sync=allways", "EVG-1004"),
        ("/v1/volumes?lun_count=1.5", "EVG-1004"),
        ("/v1/volumes/v/luns?size_bytes=bla", "EVG-1004"),
        ("/v1/events?time%3Cyesterday", "EVG-1004"),
        ("/v1/jobs?cancellable=perhaps", "EVG-1004"),
        ("/v1/volumes?max_records=lots", "EVG-1004"),
        ("/v1/volumes?name=v&name=w", "EVG-1004"),
        ("/v1/volumes?name=%f", "EVG-1004"),
        ("/v1/status?fields=health", "EVG-1002"),
        ("/v1/jobs/x", "EVG-2001"),
        ("/v1/jobs/18446744073709551616", "EVG-2001"),
    ] {
        assert_eq!(get(path).json()["code"], code, "{path}");
    }
    server.stop();
}

#[test]
fn every_path_of_the_description_is_there_and_answers_as_described() {
    let (dir, server) = filled();
    let described = http::unix(&dir, "GET", "/v1/openapi.json", "", "").json();
    let paths = described["paths"].as_object().expect("paths");
    let mut asked = 0;
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let real = path
                .replace("{aggregate}", "aggr0")
                .replace("{volume}", "v")
                .replace("{lun}", "a")
                .replace("{id}", "1");
            // What changes something is asked for wrongly: that it is understood is enough here.
            let headers = if method == "delete" {
                "If-Match: \"x\"\r\n"
            } else {
                ""
            };
            let method = method.to_uppercase();
            let answer = http::unix(&dir, &method, &real, headers, "");
            let code = answer.json()["code"].clone();
            assert!(
                code != "EVG-1006" && code != "EVG-1007",
                "{method} {real}: {answer:?}"
            );
            let statuses = &methods[method.to_lowercase().as_str()]["responses"];
            assert!(
                statuses[answer.status.to_string()].is_object(),
                "{method} {real} answered {}, which is not described",
                answer.status
            );
            asked += 1;
        }
    }
    assert!(asked >= 20, "{asked}");
    server.stop();
}
