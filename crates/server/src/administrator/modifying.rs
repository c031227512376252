//! Volumes are changed in place.

use everglade_api::{ModifyVolume, Problem, Volume};
use everglade_engine::admin::Change;

use super::administrator::Administrator;
use super::kinds::on_media;

impl Administrator {
    /// Changes what a request names.
    ///
    /// # Errors
    /// Nothing was changed, unless the problem says so: the comment and the policy come first, and
    /// they may be changed although the rest could not be changed then.
    pub fn modify_volume(&self, name: &str, request: &ModifyVolume) -> Result<Volume, Problem> {
        let before = self.volume(name)?;
        if let Some(comment) = &request.comment {
            let home = self.aggregate_of(name)?;
            let uuid = self.engine.volume_uuid(name);
            let uuid = uuid.ok_or_else(|| Problem::not_found("volume", name.to_owned()))?;
            self.schedule().set_comment(home, &uuid, comment.as_str())?;
        }
        if let Some(policy) = &request.snapshot_policy {
            self.schedule().assign(self.now(), name, policy.as_str())?;
        }
        if let Some(sync) = request.sync.filter(|sync| *sync != before.sync) {
            let volume = name.to_owned();
            let sync = on_media(sync);
            let changed = self.change_in(name, Change::SetSync { volume, sync });
            changed.map_err(|problem| match &request.snapshot_policy {
                None => problem,
                Some(_) => Problem {
                    detail: format!(
                        "the snapshot policy was changed, but sync was not: {}",
                        problem.detail
                    ),
                    ..problem
                },
            })?;
        }
        let after = self.volume(name).map_err(Problem::after_change)?;
        tracing::info!(
            "volume {name}: sync {}, snapshot policy {}",
            after.sync,
            after.snapshot_policy
        );
        Ok(after)
    }
}
