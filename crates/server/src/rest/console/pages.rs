//! Pages that show what there is.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use everglade_console::overview::Overview;
use everglade_console::{aggregate as aggregate_page, assets, entrance, lun as lun_page};
use everglade_console::{
    overview as overview_page, trash as trash_page, volume as volume_page, work,
};

use super::super::guard::Origin;
use super::Console;
use super::answers::{Shown, done_said};
use super::filled::Filled;
use super::visit::Visit;

/// The parameters of a page.
fn parameters(query: Option<&str>) -> Filled {
    Filled::parse(query.unwrap_or_default().as_bytes())
}

/// The change that the visitor comes from.
fn done(query: Option<&str>) -> Option<&'static str> {
    done_said(parameters(query).text("done"))
}

pub(super) async fn overview(State(console): State<Arc<Console>>, visit: Visit) -> Shown {
    let desk = &console.desk;
    let course = console.measured.look(desk);
    let administrator = desk.administrator();
    let shown = Overview {
        status: administrator.status(),
        aggregates: administrator.aggregates().aggregates,
        volumes: administrator.volumes().volumes,
        jobs: desk.records().jobs.all(administrator.now()),
        sessions: console.measured.sessions(),
        course,
    };
    Ok(Html(overview_page::page(&visit.visitor, &shown)))
}

pub(super) async fn aggregate(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Path(name): Path<String>,
) -> Shown {
    let administrator = console.desk.administrator();
    let aggregate = administrator.aggregate(&name)?;
    let volumes = administrator.volumes().volumes;
    // There is none of an aggregate that could not be opened.
    let map = administrator.space_map(&name).unwrap_or_default();
    let page = aggregate_page::page(&visit.visitor, &aggregate, &map, &volumes);
    Ok(Html(page))
}

pub(super) async fn volumes(
    State(console): State<Arc<Console>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Shown {
    let volumes = console.desk.administrator().volumes().volumes;
    let parameters = parameters(query.as_deref());
    let first: usize = parameters.text("first").parse().unwrap_or(0);
    let first = first.min(volumes.len().saturating_sub(1));
    let done = done_said(parameters.text("done"));
    let page = volume_page::list(&visit.visitor, &volumes, first, done);
    Ok(Html(page))
}

pub(super) async fn volume(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Shown {
    let desk = &console.desk;
    let administrator = desk.administrator();
    let volume = administrator.volume(&name)?;
    let luns = administrator.luns(&name)?.luns.into_iter();
    let luns: Vec<_> = luns.map(|lun| desk.reachable(lun)).collect();
    let snapshots = administrator.snapshots(&name)?.snapshots;
    let now = i64::try_from(administrator.now().0).unwrap_or(i64::MAX);
    let shown = (&volume, luns.as_slice(), snapshots.as_slice());
    let page = volume_page::page(&visit.visitor, shown, now, done(query.as_deref()));
    Ok(Html(page))
}

pub(super) async fn lun(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Path((volume, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Shown {
    let desk = &console.desk;
    let lun = desk.reachable(desk.administrator().lun(&volume, &name)?);
    let course = console.measured.look(desk);
    let (limits, sessions) = desk
        .ask(|administrator| Ok((administrator.limits(), administrator.sessions())))
        .await?;
    let object = format!("{volume}/{name}");
    let limit = limits.iter().find(|limit| limit.name == object);
    let load = (sessions.as_slice(), &course);
    let page = lun_page::page(&visit.visitor, &lun, limit, load, done(query.as_deref()));
    Ok(Html(page))
}

pub(super) async fn trash(
    State(console): State<Arc<Console>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Shown {
    let administrator = console.desk.administrator();
    let trash = administrator.trash().trash;
    let keep = administrator.trash_keep_seconds();
    let page = trash_page::page(&visit.visitor, &trash, keep, done(query.as_deref()));
    Ok(Html(page))
}

pub(super) async fn jobs(
    State(console): State<Arc<Console>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Shown {
    let desk = &console.desk;
    let jobs = desk.records().jobs.all(desk.administrator().now());
    let page = work::jobs(&visit.visitor, &jobs, done(query.as_deref()));
    Ok(Html(page))
}

pub(super) async fn events(State(console): State<Arc<Console>>, visit: Visit) -> Shown {
    let records = console.desk.records();
    let (events, changes) = (records.events.recent(), records.history.changes());
    Ok(Html(work::events(&visit.visitor, &events, &changes)))
}

/// `GET /login`. Who needs no token is sent on.
pub(super) async fn login(request: axum::extract::Request) -> Response {
    match request.extensions().get::<Origin>() {
        Some(Origin::Local(_)) => Redirect::to("/").into_response(),
        _ => Html(entrance::page(None)).into_response(),
    }
}

pub(super) async fn style() -> Response {
    asset("text/css; charset=utf-8", assets::STYLE)
}

pub(super) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", assets::SCRIPT)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, max-age=300"),
    );
    response
}
