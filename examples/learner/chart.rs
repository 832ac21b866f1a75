//! Pictures of learning curves.

use std::path::Path;

use gleaner::stats::Stats;
use plotters::{
    prelude::*,
    style::{FontStyle, register_font},
};

use super::Result;

/// A learning curve. Points are frames and the mean return then.
pub struct Curve {
    title: &'static str,
    /// Episodes of a trial.
    episodes: usize,
    training: Vec<(u64, f32)>,
    trials: Vec<(u64, f32)>,
}

impl Curve {
    pub fn new(title: &'static str, episodes: usize) -> Self {
        Self { title, episodes, training: Vec::new(), trials: Vec::new() }
    }

    /// Adds what training shows now.
    pub fn train(&mut self, stats: &Stats) {
        self.training.extend(stats.episodes.mean_return.map(|mean| (stats.frames, mean)));
    }

    /// Adds the mean return of a trial without exploration.
    pub fn trial(&mut self, stats: &Stats, mean: f32) {
        self.trials.push((stats.frames, mean));
    }

    /// Writes the curve as a PNG.
    pub fn draw(&self, path: impl AsRef<Path>) -> Result<()> {
        register_font("sans-serif", FontStyle::Normal, notosans::REGULAR_TTF).map_err(|_| "the font is unreadable")?;
        let points = || self.training.iter().chain(&self.trials);
        let frames = points().map(|point| point.0).max().unwrap_or(0).max(1);
        let highest = points().map(|point| point.1).fold(1.0, f32::max);
        let lowest = points().map(|point| point.1).fold(0.0, f32::min);
        let decimals = if highest - lowest < 10.0 { 1 } else { 0 };

        let root = BitMapBackend::new(path.as_ref(), (960, 600)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, ("sans-serif", 28))
            .margin(20)
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(0..frames, lowest..highest * 1.05)?;
        chart
            .configure_mesh()
            .x_desc("frames")
            .y_desc("mean return")
            .y_label_formatter(&|y| format!("{y:.decimals$}"))
            .label_style(("sans-serif", 18))
            .axis_desc_style(("sans-serif", 22))
            .light_line_style(WHITE)
            .draw()?;
        chart
            .draw_series(LineSeries::new(self.training.iter().copied(), BLUE.stroke_width(2)))?
            .label("training, mean of the last 100 episodes")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 24, y)], BLUE.stroke_width(2)));
        chart
            .draw_series(self.trials.iter().map(|point| Circle::new(*point, 5, RED.filled())))?
            .label(format!("trials of {} episodes, most likely actions", self.episodes))
            .legend(|(x, y)| Circle::new((x + 12, y), 5, RED.filled()));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .margin(16)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.4))
            .label_font(("sans-serif", 18))
            .draw()?;
        root.present()?;
        Ok(())
    }
}
