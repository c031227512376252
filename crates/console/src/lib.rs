//! The console: pages for people who look at a daemon with a browser.
//!
//! Every function here takes answers of the REST interface and returns HTML. Nothing here knows the
//! engine, a socket or a request, so a page is a function of what it shows.
//!
//! | module | what |
//! | --- | --- |
//! | [`frame`] | the frame of every page: title, links, who is looking |
//! | [`overview`], [`aggregate`], [`volume`], [`lun`], [`work`] | what there is |
//! | [`form`] | a change to be made |
//! | [`entrance`] | where a token is asked for |
//! | [`space`], [`course`], [`mod@line`] | pictures: space by what holds it, rates over time, snapshots by age |
//! | [`assets`] | the style sheet and the script |
//!
//! 1. All text that comes from outside is escaped: `maud` escapes every value, and only our own
//!    pictures are put in as they are.
//! 2. Pages work without the script. The script only fetches the page again and replaces the
//!    elements that are marked as live.
//! 3. No page refers to another server, and none has a style or a script inside.

pub mod aggregate;
pub mod assets;
pub mod course;
pub mod entrance;
pub mod form;
pub mod frame;
pub mod line;
pub mod lun;
pub mod overview;
pub mod space;
pub mod table;
pub mod trash;
pub mod volume;
pub mod work;

pub use course::{Course, Point};
pub use form::{Field, Form};
pub use frame::Visitor;
pub use table::duration;
