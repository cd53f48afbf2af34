// machine-defaults — the processes that `weighbridge train` starts, their threads, and whether workers overlap, where
// no flag says so, by the cores of this machine. One and two cores were measured (docs/measurements/2026-11-19.md).
// Pure.
//
//   1 core     a server and a worker: two workers share the core, and exchange besides
//   2 cores    two workers and one server: a second server is one more process to wake in every step
//   more       as 2, which was not measured on more
//
// Threads that share the batches of a worker are for models of many weights, or for fewer workers than cores: one each
// here. Overlap pays where links take time; where they do not it costs pauses of the computing.

export type MachineDefaults = {
  readonly servers: number;
  readonly workers: number;
  /** Threads of each worker. */
  readonly devices: number;
  readonly overlap: boolean;
};

export function machineDefaults(coreCount: number): MachineDefaults {
  return { servers: 1, workers: coreCount === 1 ? 1 : 2, devices: 1, overlap: false };
}
