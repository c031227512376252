//! Verbs of `garden`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use everglade_api::{LunName, Name};

/// Verbs of `garden`.
#[derive(Debug, Subcommand)]
pub enum GardenVerb {
    /// Move blocks out of areas that are partly free, in the background
    Clean(GardenClean),
    /// Move the blocks of a LUN into its order, in the background
    Layout(GardenLayout),
    /// Show how full each area is, and how long the runs of free blocks are
    Map(GardenMap),
    /// End these and a rebalance; moved blocks stay where they are
    Stop(GardenOf),
    /// Move no blocks until 'garden resume', also after a restart
    Pause(GardenOf),
    /// Let gardening go on that was paused
    Resume(GardenOf),
    /// Show how far they are, and what was moved
    Show(GardenOf),
}

/// Options of `garden clean`.
#[derive(Debug, Args)]
#[command(after_help = "Snapshots and clones go on sharing the blocks that are moved.")]
pub struct GardenClean {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Empty areas of which at least so many percent are free, 1 to 100 [default: 30]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub least_free: Option<u8>,
}

/// Options of `garden layout`.
#[derive(Debug, Args)]
#[command(
    after_help = "Snapshots and clones go on sharing the blocks that are moved. Reading them in \
    order may take more runs than before."
)]
pub struct GardenLayout {
    /// The LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// Only count the runs of blocks that reading in order takes; move nothing
    #[arg(long)]
    pub estimate: bool,

    /// Wait until it is done
    #[arg(long)]
    pub wait: bool,

    /// With --estimate: draw where the parts of the LUN lie, as an SVG picture; waits for the end
    #[arg(long, value_name = "FILE", requires = "estimate")]
    pub svg: Option<PathBuf>,
}

/// Options of `garden map`.
#[derive(Debug, Args)]
#[command(
    after_help = "It reads the maps of the aggregate, and moves nothing. A parity group writes \
    stripes that are free as a whole without reading."
)]
pub struct GardenMap {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Draw an SVG picture of all areas; the fuller an area, the darker
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The aggregate of a garden.
#[derive(Debug, Args)]
pub struct GardenOf {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,
}
