//! Home: what one aggregate's consistency points own. It lives with the aggregate's home reactor.

pub(crate) mod aggregate;
pub(crate) mod bases;
pub(crate) mod find;
pub(crate) mod leaving;
pub(crate) mod ledger;
pub(crate) mod publication;
pub(crate) mod run;
pub(crate) mod site;
pub(crate) mod volume;
