//! Adam (Kingma and Ba 2015) behind a bound on the gradient's norm.

use candle_core::{Tensor, Var, backprop::GradStore};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

pub struct Adam {
    vars: Vec<Var>,
    inner: AdamW,
    max_norm: f64,
}

impl Adam {
    pub fn new(vars: Vec<Var>, max_norm: f64) -> candle_core::Result<Self> {
        let params = ParamsAdamW { eps: 1e-5, weight_decay: 0.0, ..Default::default() };
        Ok(Self { inner: AdamW::new(vars.clone(), params)?, vars, max_norm })
    }

    pub fn step(&mut self, loss: &Tensor, learning_rate: f64) -> candle_core::Result<()> {
        let mut gradients = loss.backward()?;
        self.clip(&mut gradients)?;
        self.inner.set_learning_rate(learning_rate);
        self.inner.step(&gradients)
    }

    fn clip(&self, gradients: &mut GradStore) -> candle_core::Result<()> {
        let mut squares = 0.0;
        for var in &self.vars {
            if let Some(gradient) = gradients.get(var) {
                squares += f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?);
            }
        }
        let scale = self.max_norm / (squares.sqrt() + 1e-6);
        if scale < 1.0 {
            for var in &self.vars {
                if let Some(gradient) = gradients.remove(var) {
                    gradients.insert(var, (gradient * scale)?);
                }
            }
        }
        Ok(())
    }
}
