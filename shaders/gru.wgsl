// Gated recurrent unit. Twin: `policy::layer::gru`.
#import shared/recurrent

fn new_states(tile: Tile, unit: u32) -> vec4<f32> {
    let n = params.outputs;
    let gates = vec3<u32>(unit, unit + n, unit + 2u * n);
    var r = vec4<f32>(bias_x_at(gates.x) + bias_h_at(gates.x));
    var z = vec4<f32>(bias_x_at(gates.y) + bias_h_at(gates.y));
    var new_x = vec4<f32>(bias_x_at(gates.z));
    var new_h = vec4<f32>(bias_h_at(gates.z));
    for (var i = 0u; i < params.inputs; i++) {
        let x = inputs_at(tile, i);
        let w = gates * params.inputs + i;
        r += weight_x_at(w.x) * x;
        z += weight_x_at(w.y) * x;
        new_x += weight_x_at(w.z) * x;
    }
    for (var i = 0u; i < n; i++) {
        let h = states_at(tile, i);
        let w = gates * n + i;
        r += weight_h_at(w.x) * h;
        z += weight_h_at(w.y) * h;
        new_h += weight_h_at(w.z) * h;
    }
    var h = states_at(tile, unit);
    for (var j = 0u; j < 4u; j++) {
        let new_ = tanh32(new_x[j] + sigmoid32(r[j]) * new_h[j]);
        h[j] = new_ + sigmoid32(z[j]) * (h[j] - new_);
    }
    return h;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = tile_of(group, groups, local);
    for (var unit = tile.unit; tile.row < params.rows && unit < params.outputs; unit += GROUP) {
        let h = new_states(tile, unit);
        for (var j = 0u; tile.row + j < params.rows && j < 4u; j++) {
            to_[(tile.row + j) * params.outputs + unit] = h[j];
        }
    }
    remember(tile);
}
