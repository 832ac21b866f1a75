// The network in uniform memory: all threads read the same word at the same time, so one load serves many.
#import shared/network

@group(0) @binding(1) var<uniform> network: FusedNetwork;

fn fetch(local: u32) {
}

fn four(i: u32) -> vec4<u32> {
    return network.weights[i];
}
