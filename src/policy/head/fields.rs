//! A head for each field of an action that is a struct.
//!
//! Parameters, masks, free deviations and action bytes of the fields lie side by side, in the order of the struct. Given
//! the observation the fields are independent: log-probabilities and entropies are sums over them. Each field draws by a
//! key of its own, [`field_key`].

use std::collections::BTreeMap;

use pulp::Arch;

use super::{Head, HeadSpec, Noise, Scratch, act as act_one};
use crate::{
    components::{ActionKey, Masks},
    data::Field,
    error::Error,
    policy::{
        network::MAX_WIDTH,
        plan::{Forward, Outcome},
        resolve::error,
    },
    seed::threefry,
    space::Space,
};

/// The head for an action: `one`, or of an action of several fields one a field, by name; [`HeadSpec::Auto`] for fields
/// that `several` does not name. Errors: [`Error::Network`] if they do not go together.
pub(in crate::policy) fn resolve(
    one: HeadSpec,
    several: &BTreeMap<String, HeadSpec>,
    (space, fields): (&Space, &[Field]),
) -> Result<Head, Error> {
    let spaces = match space {
        Space::Fields(spaces) if spaces.len() > 1 => spaces,
        _ => {
            return match several.keys().next() {
                Some(name) => Err(error("heads", name, format!("none for {space}: give its head as `head`"))),
                None => one.resolve(space, fields),
            };
        }
    };
    let names = || spaces.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = several.keys().find(|name| !spaces.iter().any(|(field, _)| field == *name)) {
        return Err(error("heads", name, names()));
    }
    if one != HeadSpec::Auto {
        return Err(error("head", format!("{one:?}"), format!("Auto for a struct; give heads by field: {}", names())));
    }
    let mut heads = Vec::new();
    for ((name, space), field) in spaces.iter().zip(fields) {
        let spec = several.get(name).copied().unwrap_or_default();
        if let HeadSpec::Deterministic { noise } | HeadSpec::TanhDeterministic { noise } = spec
            && let Noise::OrnsteinUhlenbeck { .. } = noise
        {
            let legal = "None or Gaussian(…): a process needs an action that is no struct";
            return Err(error(format!("heads.{name}.noise"), "OrnsteinUhlenbeck", legal));
        }
        let head = spec.resolve(space, std::slice::from_ref(field)).map_err(|problem| of_field(name, problem))?;
        heads.push((name.clone(), head));
    }
    let head = Head::Fields { heads };
    if head.params() > MAX_WIDTH {
        return Err(error("action space", space, format!("1 to {MAX_WIDTH} actions")));
    }
    Ok(head)
}

/// An error of a head, as one of the head of field `name`.
pub(in crate::policy) fn of_field(name: &str, problem: Error) -> Error {
    match problem {
        Error::Network { field, value, legal } => {
            let place = match field.strip_prefix("head") {
                Some(rest) => format!("heads.{name}{rest}"),
                None => format!("heads.{name}: {field}"),
            };
            Error::Network { field: place, value, legal }
        }
        problem => problem,
    }
}

/// The key that field number `field` of a row draws by: the row's own, folded with the number.
pub fn field_key(key: ActionKey, field: u32) -> ActionKey {
    ActionKey(threefry(key.0, [field, u32::MAX]))
}

/// One field's part of a run of rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    keys: Vec<ActionKey>,
    masks: Vec<u8>,
    params: Vec<f32>,
    actions: Vec<u8>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
}

impl Columns {
    /// Room for `rows` rows of `head`.
    fn reserve(&mut self, head: &Head, rows: usize, entropies: bool) {
        self.keys.clear();
        self.masks.clear();
        self.params.clear();
        self.actions.resize(rows * head.action_bytes(), 0);
        self.log_probs.resize(rows, 0.0);
        self.entropies.resize(if entropies { rows } else { 0 }, 0.0);
    }
}

/// Where a field begins in what lies side by side.
#[derive(Clone, Copy, Default)]
struct Start {
    params: usize,
    mask: usize,
    free: usize,
    bytes: usize,
}

/// Acts for all rows, and writes their entropies if they are asked for.
pub(super) fn act(
    arch: Arch,
    heads: &[(String, Head)],
    free: &[f32],
    input: &Forward<'_>,
    out: &mut Outcome<'_>,
    scratch: &mut Scratch,
) {
    out.log_probs.fill(0.0);
    out.entropies.fill(0.0);
    let mut start = Start::default();
    let Scratch { fields, columns, .. } = scratch;
    for (((_, head), scratch), number) in heads.iter().zip(fields).zip(0..) {
        act_field(arch, (head, number), &free[start.free..][..head.free()], start, (input, out), (columns, scratch));
        start.params += head.params();
        start.mask += head.mask();
        start.free += head.free();
        start.bytes += head.action_bytes();
    }
}

fn act_field(
    arch: Arch,
    (head, number): (&Head, u32),
    free: &[f32],
    start: Start,
    (input, out): (&Forward<'_>, &mut Outcome<'_>),
    (columns, scratch): (&mut Columns, &mut Scratch),
) {
    let rows = input.keys.len();
    let (params, bytes) = (head.params(), head.action_bytes());
    let mask = if input.masks.width() == 0 { 0 } else { head.mask() };
    columns.reserve(head, rows, !out.entropies.is_empty());
    columns.keys.extend(input.keys.iter().map(|key| field_key(*key, number)));
    let width = out.params.len() / rows.max(1);
    columns.params.extend(out.params.chunks_exact(width.max(1)).flat_map(|row| &row[start.params..][..params]));
    columns.masks.extend((0..rows).flat_map(|row| &input.masks.row(row)[start.mask * usize::from(mask > 0)..][..mask]));
    let own_input = Forward { keys: &columns.keys, masks: Masks::of_bytes(&columns.masks, mask), ..*input };
    let mut own = Outcome {
        params: &mut columns.params,
        actions: &mut columns.actions,
        log_probs: &mut columns.log_probs,
        entropies: &mut columns.entropies,
        values: &mut [],
    };
    act_one(arch, head, free, &own_input, &mut own, scratch);
    head.entropies(free, &own_input, &mut own);
    let width = out.actions.len() / rows.max(1);
    let actions = out.actions.chunks_exact_mut(width.max(1)).zip(columns.actions.chunks_exact(bytes));
    actions.for_each(|(to, from)| to[start.bytes..][..bytes].copy_from_slice(from));
    out.log_probs.iter_mut().zip(&columns.log_probs).for_each(|(sum, own)| *sum += own);
    out.entropies.iter_mut().zip(&columns.entropies).for_each(|(sum, own)| *sum += own);
}
