// The door `weighbridge/testing`: a simulated clock, network and cluster, to test code on Weighbridge from a seed.

export type { CancelTimer, Clock } from "../base/clock.ts";
export { Random } from "../base/random.ts";
export type { FaultOptions } from "../peer/faults.ts";
export { type RunOptions, type Settling, SimClock, type SimClockOptions } from "./sim-clock.ts";
export { SimCluster, type SimClusterOptions } from "./sim-cluster.ts";
export { type CrashOptions, type PartitionOptions, SimNetwork, type SimNetworkOptions } from "./sim-network.ts";
