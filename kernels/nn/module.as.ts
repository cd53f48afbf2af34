// module — the list of what the nn module exports: the layers' arithmetic, on spans of f32 in a memory that somebody
// else allocates from. It holds no state and no data of its own, so that it lives beside the kernel module on one
// arena. Addresses are u32.

export { addBiasToColumns, addBiasToRows, addColumnSums, addRowSums } from "./bias.as";
export { fold, framePlanes, unfold, unframePlanes } from "./convolution.as";
export { addToRows, findOutOfRange, sumOfRows } from "./embedding.as";
export { relu, reluGradient, sigmoid, sigmoidGradient } from "./activations.as";
export { multiply, multiplyRows, multiplyTransposed } from "./matrix-product.as";
export { channelSums, combineChannels } from "./channels.as";
export { maxPool, maxPoolGradient } from "./max-pool.as";
export { dotOfHalves, dotOfHalvesGradient } from "./pairs.as";
export { softmaxGradient } from "./softmax.as";
