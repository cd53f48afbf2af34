// unclosed-worker — how a process tells its launcher of a worker that ends without having closed its session: through
// Node's diagnostics channels, by name, as launcher-pipe.ts does.

import { channel } from "node:diagnostics_channel";

/** Who watches the launcher writes what is published here to it, and fills in what the launcher does. */
export const UNCLOSED_WORKER = "weighbridge:unclosed-worker";

export type UnclosedWorker = {
  readonly name: string;
  /** Whether another process is started with its rank. */
  isAwaited: boolean;
  /** Whether there is a launcher, which tells people. */
  isTold: boolean;
};

/** `isAwaited`: as far as is known without a launcher. */
export function tellUnclosed(name: string, isAwaited: boolean): Readonly<UnclosedWorker> {
  const worker: UnclosedWorker = { name, isAwaited, isTold: false };
  channel(UNCLOSED_WORKER).publish(worker);
  return worker;
}
