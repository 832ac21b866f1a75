// Sums over a workgroup. Every thread adds the parts up in the same order, so two barriers do and all have the same bits.
#import shared/grid

var<workgroup> parts: array<f32, GROUP>;

fn group_sum(local: u32, part: f32) -> f32 {
    workgroupBarrier();
    parts[local] = part;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < GROUP; i++) {
        sum += parts[i];
    }
    return sum;
}
