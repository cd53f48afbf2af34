// function-id — the numbers of the built-in functions on the wire. Numbers below 1024 are ours; users' come above.

export const FunctionId = {
  // control plane, served by the scheduler
  REGISTER: 1,
  HEARTBEAT: 2,
  BARRIER: 3,
  LEAVE: 4,
  STATUS: 5,
  // served by the scheduler, for workers
  UNITS: 7,
  // control plane, served by every node
  ROSTER: 8,
  ABORT: 9,
  // control plane, served by the scheduler
  PLACEMENT: 10,
  GATHER: 12,
  RENDEZVOUS: 13,
  // control plane, served by workers
  PREPARE: 14,
  RETIRE: 15,
  // applications
  SIMPLE: 16,
  KV_PUSH: 32,
  KV_PULL: 33,
  KV_PUSH_PULL: 34,
  // PS functions, named by the hash of their name
  FUNCTION: 48,
  // several of them in one frame
  BUNDLE: 49,
  // operations of workers among themselves
  COLLECTIVE: 64,
} as const;
export type FunctionId = (typeof FunctionId)[keyof typeof FunctionId];

/** Of the frames of a function that is called by its name or has a schema. */
export const FunctionFlag = {
  /** More frames of this request follow. */
  PART: 1,
} as const;
