//! The operations of a network: what both backends run for each row.

/// What follows an operation, fused into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    Identity,
    /// Hyperbolic tangent.
    Tanh,
    /// The positive part.
    Relu,
    /// `x · σ(x)`, also called swish.
    Silu,
    /// `x · Φ(x)` in its tanh form (Hendrycks and Gimpel 2016): PyTorch's `GELU(approximate="tanh")`.
    Gelu,
    /// `x · Φ(x)` itself: PyTorch's `GELU()`.
    GeluErf,
}

/// Where an operation reads or writes: a matrix of a row a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The encoded observations.
    Input,
    /// The `i`-th intermediate matrix; its width is `Plan::hidden[i]`.
    Hidden(usize),
    /// The head's parameters: logits, or means.
    Params,
    /// The value.
    Value,
}

/// One operation on a row: reads columns of one matrix and writes another.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Name: its tensors are `NAME.PART`.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// Read here.
    pub from: Place,
    /// First column of `from` that is read.
    pub start: usize,
    /// Columns that are read.
    pub inputs: usize,
    /// Written there.
    pub to: Place,
    /// Columns that are written, from the first; all of `to`, but for [`Kind::Copy`].
    pub outputs: usize,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `activation(x · weightᵀ + bias)`, `weight` as `[outputs, inputs]`.
    Linear {
        /// Applied to each element.
        activation: Activation,
    },
    /// `activation((x - mean) / √(variance + 1e-5) · weight + bias)` over the row's elements (Ba, Kiros and Hinton 2016).
    LayerNorm {
        /// Applied to each element.
        activation: Activation,
    },
    /// Cross-correlation, `weight` as `[filters, channels, kernel, kernel]`; the result is
    /// `[filters, rows, columns]`.
    Conv2d(Convolution),
    /// Row `x` of `weight`, which is `[entries, outputs]`; the nearest entry for an index outside.
    Embedding {
        /// Rows of the table.
        entries: usize,
    },
    /// Gated recurrent unit as PyTorch's (gates reset, update, new); the result is its hidden state.
    Gru {
        /// First column of its state: the hidden state.
        state: usize,
    },
    /// Long short-term memory as PyTorch's (gates input, forget, cell, output); the result is its hidden state.
    Lstm {
        /// First column of its state: the hidden state, then the cell.
        state: usize,
    },
    /// Copies columns, to concatenate matrices.
    Copy {
        /// First column of `to` that is written.
        at: usize,
    },
}

/// The shapes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convolution {
    /// Channels, height and width of the input.
    pub input: [usize; 3],
    /// Filters, height and width of the output.
    pub output: [usize; 3],
    /// Side of the kernel.
    pub kernel: usize,
    /// Step of the kernel.
    pub stride: usize,
    /// Zeros beyond each edge.
    pub padding: usize,
    /// Applied to the input: 1/255 for bytes, else 1.
    pub scale: f32,
    /// Whether the input is of whole numbers from 0 to 255, columns of an observation of bytes: a backend may send them
    /// as such.
    pub bytes: bool,
    /// Applied to each element.
    pub activation: Activation,
}

impl Convolution {
    /// Numbers that one output is made of.
    pub fn patch(&self) -> usize {
        self.input[0] * self.kernel * self.kernel
    }

    /// Whether the shapes belong to each other and to rows of so many numbers.
    pub(super) fn fits(&self, inputs: usize, outputs: usize) -> bool {
        let [_, height, width] = self.input;
        let padded = |input: usize| input.saturating_add(self.padding.saturating_mul(2));
        let side = |input: usize| Some(padded(input).checked_sub(self.kernel)? / self.stride + 1);
        self.padding < self.kernel
            && self.padding <= height.min(width)
            && self.stride > 0
            && side(height) == Some(self.output[1])
            && side(width) == Some(self.output[2])
            && self.input.iter().product::<usize>() == inputs
            && self.output.iter().product::<usize>() == outputs
    }

    /// Places that a filter is applied to.
    pub fn places(&self) -> usize {
        self.output[1] * self.output[2]
    }
}

impl Operation {
    /// Shapes of its tensors by name of their part.
    pub fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        let gates = |gates: usize| {
            let (rows, hidden) = (gates * self.outputs, self.outputs);
            vec![
                ("weight_ih_l0", vec![rows, self.inputs]),
                ("weight_hh_l0", vec![rows, hidden]),
                ("bias_ih_l0", vec![rows]),
                ("bias_hh_l0", vec![rows]),
            ]
        };
        match self.kind {
            Kind::Linear { .. } => {
                vec![("weight", vec![self.outputs, self.inputs]), ("bias", vec![self.outputs])]
            }
            Kind::LayerNorm { .. } => vec![("weight", vec![self.outputs]), ("bias", vec![self.outputs])],
            Kind::Conv2d(conv) => {
                let [filters, channels] = [conv.output[0], conv.input[0]];
                vec![("weight", vec![filters, channels, conv.kernel, conv.kernel]), ("bias", vec![filters])]
            }
            Kind::Embedding { entries } => vec![("weight", vec![entries, self.outputs])],
            Kind::Gru { .. } => gates(3),
            Kind::Lstm { .. } => gates(4),
            Kind::Copy { .. } => Vec::new(),
        }
    }

    /// Columns of recurrent state.
    pub fn state(&self) -> usize {
        match self.kind {
            Kind::Gru { .. } => self.outputs,
            Kind::Lstm { .. } => 2 * self.outputs,
            _ => 0,
        }
    }

    /// Multiplications and additions of one row.
    pub fn operations(&self) -> usize {
        let (inputs, outputs) = (self.inputs, self.outputs);
        match self.kind {
            Kind::Linear { .. } => 2 * inputs * outputs,
            Kind::LayerNorm { .. } => 6 * outputs,
            Kind::Conv2d(conv) => 2 * conv.patch() * outputs,
            Kind::Gru { .. } => 6 * (inputs + outputs) * outputs,
            Kind::Lstm { .. } => 8 * (inputs + outputs) * outputs,
            Kind::Embedding { .. } | Kind::Copy { .. } => 0,
        }
    }

    /// Where it keeps what follows it, if an activation may.
    pub fn activation_mut(&mut self) -> Option<&mut Activation> {
        match &mut self.kind {
            Kind::Linear { activation } | Kind::LayerNorm { activation } => Some(activation),
            Kind::Conv2d(conv) => Some(&mut conv.activation),
            _ => None,
        }
    }
}
