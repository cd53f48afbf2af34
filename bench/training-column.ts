// training-column — how bench/training.ts spreads one training over processes, by name. Pure.
//
//   one           one process, without a cluster                         two          two of them at half the batch
//   SxW           S servers and W workers, each a process: 1x1, 2x4      all-reduce   two workers without servers
//   …-devicesN    each worker computes with N threads                    …-overlap    with overlap

export type Column = {
  readonly name: string;
  /** Processes that train and know nothing of each other; 0 for a cluster. */
  readonly aloneCount: number;
  readonly servers: number;
  readonly workers: number;
  /** Whether servers hold the parameters; otherwise workers add gradients among themselves. */
  readonly onServers: boolean;
  /** Threads of each worker. */
  readonly devices: number;
  readonly overlap: boolean;
};

/** Those of the first table of issue 34. */
export const COLUMN_NAMES: readonly string[] = ["one", "two", "1x1", "1x2", "2x2", "2x4", "all-reduce", "1x1-devices2"];

const FORM =
  /^(?:(?<word>one|two|all-reduce)|(?<servers>\d{1,2})x(?<workers>\d{1,2}))(?:-devices(?<devices>\d{1,2}))?(?<overlap>-overlap)?$/;

/** Throws an error for people. */
export function parseColumn(name: string): Column {
  const groups = FORM.exec(name)?.groups;
  if (groups === undefined)
    throw new Error(`no column is named ${name}; there are one, two, all-reduce, and 1x1, 2x4, 1x1-devices2, 2x2-overlap, …`);
  const { word, servers = 1, workers = 2, devices = 1, overlap } = groups;
  const aloneCount = word === "one" ? 1 : word === "two" ? 2 : 0;
  const nodes = aloneCount > 0 ? { servers: 0, workers: 0 } : { servers: Number(servers), workers: Number(workers) };
  if (aloneCount === 0 && (nodes.servers === 0 || nodes.workers === 0)) throw new Error(`${name}: a cluster has a server and a worker`);
  return { ...{ name, aloneCount, ...nodes }, onServers: word === undefined, devices: Number(devices), overlap: overlap !== undefined };
}
