// guest-address — the address of a cluster, for guests: `weighbridge://HOST:PORT`, of the scheduler, with others
// that take over behind commas, and the job's name as the path.

import { showValue, WeighbridgeError } from "../base/errors.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";

/** A configuration has to be complete; these keys mean nothing to a guest, which the scheduler does not count. */
export const GUEST_CONFIG = { role: "worker", serverCount: 1, workerCount: 1, rank: undefined, threads: 1 } as const;

const ADDRESS = /^weighbridge:\/\/([^/?#@]+:\d+)(?:\/([^/?#]*))?$/;

/** Throws BAD_ARGUMENT. The hosts and ports are checked with the configuration. */
export function guestAddress(address: string): Pick<NodeConfigOptions, "schedulers" | "job"> {
  const [, schedulers, job = ""] = ADDRESS.exec(address) ?? [];
  if (schedulers === undefined)
    throw new WeighbridgeError("BAD_ARGUMENT", `an address is weighbridge://HOST:PORT of a scheduler, not ${showValue(address)}`);
  return job === "" ? { schedulers } : { schedulers, job };
}
