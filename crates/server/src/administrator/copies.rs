//! Lost copies of labels: written anew at the start, and reported.
//!
//! The engine finds and writes them ([`everglade_engine::Engine::mend_labels`]), once each
//! aggregate is online. If a copy cannot be written, `status` reports it until the daemon ends.

use everglade_api::{Code, Condition, Health};
use everglade_engine::{Engine, LostCopy as Lost};
use everglade_env::World;

use super::administrator::Administrator;

/// A copy of a label that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCopy {
    /// Name of the aggregate.
    pub aggregate: String,
    /// Its number in the engine.
    id: u32,
    copy: Lost,
}

/// Writes them anew, and says so in the log.
pub(crate) fn mend(world: &World, engine: &Engine) -> Vec<LostCopy> {
    let online = engine.online();
    let aggregates = engine.aggregates().into_iter();
    let aggregates = aggregates.filter(|known| online.contains(&known.id));
    let mut lost = Vec::new();
    for aggregate in aggregates {
        for copy in engine.mend_labels(world, aggregate.id) {
            let it = LostCopy {
                aggregate: aggregate.name.clone(),
                id: aggregate.id,
                copy,
            };
            match it.is_mended() {
                true => tracing::warn!("aggregate {}: {}", it.aggregate, it.text()),
                false => tracing::error!("aggregate {}: {}", it.aggregate, it.text()),
            }
            lost.push(it);
        }
    }
    lost
}

impl LostCopy {
    /// Returns whether the copy was rewritten.
    #[must_use]
    pub fn is_mended(&self) -> bool {
        self.copy.failure.is_none()
    }

    /// Returns one line for people, without the aggregate.
    #[must_use]
    pub fn text(&self) -> String {
        let Lost {
            device,
            is_front,
            found,
            failure,
        } = &self.copy;
        let place = match is_front {
            true => "front",
            false => "end",
        };
        let lost = format!("the label at the {place} of device {device} was lost: {found}");
        match failure {
            None => format!("{lost}; it was written anew from the other copy"),
            Some(failure) => format!(
                "{lost}; it cannot be written anew: {failure}; the other copy is the only one left"
            ),
        }
    }
}

impl Administrator {
    /// Notes the copies that could not be rewritten, for `status`.
    pub(crate) fn note_lost_copies(&mut self, lost: &[LostCopy]) {
        let code = Code::LabelCopyLost;
        let condition = |it: &LostCopy| {
            let condition = Condition {
                code: code.to_string(),
                health: Health::Warning,
                object: String::new(),
                what: it.text(),
                action: "look at the device; the next start tries again".to_owned(),
                page: code.page(),
            };
            (it.id, condition)
        };
        let unmended = lost.iter().filter(|it| !it.is_mended());
        self.found_at_start.extend(unmended.map(condition));
    }

    /// Returns the conditions that were found at the start, of the aggregates that there still are
    /// and by their present names.
    pub(super) fn found_at_start(&self) -> Vec<Condition> {
        let aggregates = self.engine.aggregates();
        let of = |(id, condition): &(u32, Condition)| {
            let aggregate = aggregates.iter().find(|known| known.id == *id)?;
            let object = format!("aggregate {}", aggregate.name);
            let condition = condition.clone();
            Some(Condition {
                object,
                ..condition
            })
        };
        self.found_at_start.iter().filter_map(of).collect()
    }
}
