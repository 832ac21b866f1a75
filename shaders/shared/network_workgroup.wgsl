// The network in storage; a workgroup fetches its weights once for all its rows. Takes the place of `network_uniform`.
#import shared/network

// How many of `weights` are used.
override fours: u32 = 4064u;

@group(0) @binding(1) var<storage, read> network: FusedNetwork;

var<workgroup> fetched: array<vec4<u32>, fours>;

fn fetch(local: u32) {
    for (var i = local; i < fours; i += 64u) {
        fetched[i] = network.weights[i];
    }
    workgroupBarrier();
}

fn four(i: u32) -> vec4<u32> {
    return fetched[i];
}
