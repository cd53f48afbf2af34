// machine-defaults — the processes that `weighbridge train` starts, their threads, and whether workers overlap, where
// no flag says so, by the cores of this machine. One core was measured (docs/measurements/2026-11-19.md); two cores are
// what they were before, since runs with one and with two servers do not decide. Pure.
//
//   1 core     a server and a worker: two workers share the core, and exchange besides
//   2 cores    two workers and two servers
//   more       as 2, which was not measured on more
//
// Threads that share the batches of a worker are for models of many weights, or for fewer workers than cores: one each
// here. Overlap pays where links take time, and costs pauses of the computing where they do not.

export type MachineDefaults = {
  readonly servers: number;
  readonly workers: number;
  /** Threads of each worker. */
  readonly devices: number;
  readonly overlap: boolean;
};

export function machineDefaults(coreCount: number): MachineDefaults {
  const nodes = coreCount === 1 ? 1 : 2;
  return { servers: nodes, workers: nodes, devices: 1, overlap: false };
}
