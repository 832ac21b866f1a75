// Long short-term memory. Twin: `policy::layer::lstm`.
#import shared/recurrent

// The gates input, forget, cell and output of 4 rows.
fn gates_of(tile: Tile, unit: u32) -> mat4x4<f32> {
    let n = params.outputs;
    let gates = unit + n * vec4<u32>(0u, 1u, 2u, 3u);
    var sums = mat4x4<f32>();
    for (var gate = 0u; gate < 4u; gate++) {
        sums[gate] = vec4<f32>(bias_x_at(gates[gate]) + bias_h_at(gates[gate]));
    }
    for (var i = 0u; i < params.inputs; i++) {
        let x = inputs_at(tile, i);
        let w = gates * params.inputs + i;
        sums[0] += weight_x_at(w.x) * x;
        sums[1] += weight_x_at(w.y) * x;
        sums[2] += weight_x_at(w.z) * x;
        sums[3] += weight_x_at(w.w) * x;
    }
    for (var i = 0u; i < n; i++) {
        let h = states_at(tile, i);
        let w = gates * n + i;
        sums[0] += weight_h_at(w.x) * h;
        sums[1] += weight_h_at(w.y) * h;
        sums[2] += weight_h_at(w.z) * h;
        sums[3] += weight_h_at(w.w) * h;
    }
    return sums;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = tile_of(group, groups, local);
    for (var unit = tile.unit; tile.row < params.rows && unit < params.outputs; unit += GROUP) {
        let gates = gates_of(tile, unit);
        let cells = states_at(tile, params.outputs + unit);
        for (var j = 0u; tile.row + j < params.rows && j < 4u; j++) {
            let kept = sigmoid32(gates[1][j]) * cells[j];
            let c = sigmoid32(gates[0][j]) * tanh32(gates[2][j]) + kept;
            // No other thread reads this cell.
            states[tile.h[j] + params.outputs + unit] = c;
            to_[(tile.row + j) * params.outputs + unit] = sigmoid32(gates[3][j]) * tanh32(c);
        }
    }
    remember(tile);
}
