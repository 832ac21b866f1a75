//! From lists of layers to operations: shapes, tensor names, fusing of activations.

use std::collections::BTreeMap;

use super::{
    layer::Layer,
    network::MAX_INPUTS,
    plan::{Activation, Convolution, Kind, Operation, Place, Plan},
    resolve::error,
};
use crate::{
    data::{Dtype, Field},
    error::Error,
    space::Space,
};

/// What flows from one layer to the next.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    place: Place,
    start: usize,
    width: usize,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Numbers,
    /// Channels, height, width. What it is multiplied by makes bytes numbers up to 1.
    Image([usize; 3], f32),
    /// What a convolution gave: to be flattened before layers other than convolutions.
    Map([usize; 3]),
    /// An index below so many.
    Index(usize),
}

/// A plan in the making.
pub(super) struct Chain {
    pub(super) plan: Plan,
    /// A layer that reads bytes or indices of the observation.
    pub(super) reads_raw: Option<String>,
}

fn form(space: Option<&Space>, field: &Field) -> Form {
    match (space, &field.shape[..]) {
        (Some(Space::Discrete { n }), _) => Form::Index(*n as usize),
        (_, [channels, height, width]) => {
            let scale = if field.dtype == Dtype::U8 { 1.0 / 255.0 } else { 1.0 };
            Form::Image([*channels, *height, *width], scale)
        }
        _ => Form::Numbers,
    }
}

impl Chain {
    /// The observation, with the fields that have layers of their own replaced by what those make of them.
    pub(super) fn observation(
        &mut self,
        lists: &BTreeMap<String, Vec<Layer>>,
        (space, fields): (&Space, &[Field]),
    ) -> Result<Flow, Error> {
        let spaces = if let Space::Fields(spaces) = space { &spaces[..] } else { &[] };
        if let Some(name) =
            lists.keys().find(|name| name.is_empty() || !fields.iter().any(|field| field.name == **name))
        {
            let names: Vec<_> = fields.iter().map(|field| &*field.name).filter(|name| !name.is_empty()).collect();
            let legal =
                if names.is_empty() { "none: the observation has no named fields".into() } else { names.join(", ") };
            return Err(error("fields", name, legal));
        }
        if let (true, [field]) = (lists.is_empty(), fields) {
            let space = spaces.first().map_or(space, |(_, space)| space);
            return Ok(Flow { place: Place::Input, start: 0, width: field.len(), form: form(Some(space), field) });
        }
        let (mut parts, mut start) = (Vec::new(), 0);
        for (i, field) in fields.iter().enumerate() {
            let form = form(spaces.get(i).map(|(_, space)| space), field);
            let flow = Flow { place: Place::Input, start, width: field.len(), form };
            start += field.len();
            match lists.get(&*field.name) {
                Some(layers) => parts.push(self.list(&format!("fields.{}", field.name), layers, flow)?),
                None => parts.push(flow),
            }
        }
        if lists.is_empty() {
            return Ok(Flow { place: Place::Input, start: 0, width: start, form: Form::Numbers });
        }
        Ok(self.join(&parts))
    }

    fn join(&mut self, parts: &[Flow]) -> Flow {
        let width = parts.iter().map(|part| part.width).sum();
        let to = self.hidden(width);
        let mut at = 0;
        for part in parts {
            let columns = part.width;
            self.plan.layers.push(Operation {
                name: "fields".into(),
                kind: Kind::Copy { at },
                from: part.place,
                start: part.start,
                inputs: columns,
                to,
                outputs: columns,
            });
            at += columns;
        }
        Flow { place: to, start: 0, width, form: Form::Numbers }
    }

    fn hidden(&mut self, width: usize) -> Place {
        self.plan.hidden.push(width);
        Place::Hidden(self.plan.hidden.len() - 1)
    }

    /// Appends the layers of one list and returns where their result is.
    pub(super) fn list(&mut self, list: &str, layers: &[Layer], mut flow: Flow) -> Result<Flow, Error> {
        for (i, layer) in layers.iter().enumerate() {
            if let Some(activation) = layer.activation() {
                // `check_layers` made sure that the entry before takes one.
                if let Some(place) = self.plan.layers.last_mut().and_then(Operation::activation_mut) {
                    *place = activation;
                }
                continue;
            }
            flow = self
                .layer(&format!("{list}.{i}"), *layer, flow)
                .map_err(|(value, legal)| error(format!("{list}[{i}]"), format!("{layer:?}{value}"), legal))?;
        }
        Ok(flow)
    }

    /// Appends one layer. The error says what the layer meets, and what is legal.
    fn layer(&mut self, name: &str, layer: Layer, flow: Flow) -> Result<Flow, (String, String)> {
        let flat = |flow: Flow| match flow.form {
            Form::Map(_) => Err((" on an image".to_string(), "Flatten before it".to_string())),
            _ => Ok(flow),
        };
        let identity = Activation::Identity;
        let state = self.plan.state();
        match layer {
            Layer::Linear(width) => Ok(self.push(name, Kind::Linear { activation: identity }, flat(flow)?, width)),
            Layer::LayerNorm => {
                let width = flat(flow)?.width;
                Ok(self.push(name, Kind::LayerNorm { activation: identity }, flow, width))
            }
            Layer::Gru(hidden) => Ok(self.push(name, Kind::Gru { state }, flat(flow)?, hidden)),
            Layer::Lstm(hidden) => Ok(self.push(name, Kind::Lstm { state }, flat(flow)?, hidden)),
            Layer::Flatten => Ok(Flow { form: Form::Numbers, ..flow }),
            Layer::Embedding(width) => {
                let Form::Index(entries) = flow.form else {
                    return Err((String::new(), "first in the list of a discrete observation".into()));
                };
                // Indices come as floats, which are exact up to here.
                if entries > 1 << 24 {
                    return Err((format!(" of {entries} values"), "at most 2^24 values".into()));
                }
                self.reads_raw = Some(name.into());
                Ok(self.push(name, Kind::Embedding { entries }, flow, width))
            }
            Layer::Conv2d { filters, kernel, stride, padding } => {
                self.convolve(name, [filters, kernel, stride, padding], flow)
            }
            Layer::Tanh | Layer::Relu | Layer::Silu | Layer::Gelu | Layer::GeluErf => Ok(flow),
        }
    }

    fn convolve(
        &mut self,
        name: &str,
        [filters, kernel, stride, padding]: [usize; 4],
        flow: Flow,
    ) -> Result<Flow, (String, String)> {
        let (input, scale) = match flow.form {
            Form::Image(shape, scale) => (shape, scale),
            Form::Map(shape) => (shape, 1.0),
            _ => return Err((String::new(), "on an observation [channels, height, width] or another Conv2d".into())),
        };
        let [_, height, width] = input;
        let least = height.min(width);
        let most = least + 2 * padding.min(least);
        if !(1..=most).contains(&kernel) || stride == 0 || padding >= kernel.min(least + 1) {
            let legal = format!("kernel 1 to {most}, stride at least 1, padding below kernel and at most {least}");
            return Err((format!(" on {height} × {width}"), legal));
        }
        let side = |input: usize| (input + 2 * padding - kernel) / stride + 1;
        let output = [filters, side(height), side(width)];
        let outputs = output.iter().fold(1, |product: usize, side| product.saturating_mul(*side));
        if outputs > MAX_INPUTS {
            return Err((format!(" gives {outputs} elements"), format!("at most {MAX_INPUTS} elements")));
        }
        let bytes = flow.place == Place::Input && scale != 1.0;
        if bytes {
            self.reads_raw = Some(name.into());
        }
        let activation = Activation::Identity;
        let convolution = Convolution { input, output, kernel, stride, padding, scale, bytes, activation };
        let flow = self.push(name, Kind::Conv2d(convolution), flow, outputs);
        Ok(Flow { form: Form::Map(output), ..flow })
    }

    fn push(&mut self, name: &str, kind: Kind, flow: Flow, outputs: usize) -> Flow {
        let to = self.hidden(outputs);
        self.operation(name, kind, flow, to, outputs);
        Flow { place: to, start: 0, width: outputs, form: Form::Numbers }
    }

    fn operation(&mut self, name: &str, kind: Kind, flow: Flow, to: Place, outputs: usize) {
        let Flow { place: from, start, width: inputs, .. } = flow;
        self.plan.layers.push(Operation { name: name.into(), kind, from, start, inputs, to, outputs });
    }

    /// Appends the layer that writes an output of the network.
    pub(super) fn last(&mut self, name: &str, flow: Flow, to: Place) -> Result<(), Error> {
        if let Form::Map(_) = flow.form {
            return Err(error(name, "a layer on an image", "Flatten before it"));
        }
        let outputs = self.plan.width(to).unwrap_or_default();
        self.operation(name, Kind::Linear { activation: Activation::Identity }, flow, to, outputs);
        Ok(())
    }
}
