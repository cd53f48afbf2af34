// scheduler-url — where a cluster is, as one text: `weighbridge://HOST[:PORT][,HOST[:PORT]…][/JOB]`. The hosts are
// schedulers of one job: the one that runs, and those that take over. The path is the job's name. connect() and the
// commands read it here.

import { badArgument, showValue } from "../../base/errors.ts";
import { hostPortsOf, SCHEDULER_PORT } from "./node-addresses.ts";
import type { NodeConfigOptions } from "./node-config.ts";
import { hostPorts } from "./value-kind.ts";

export const SCHEME = "weighbridge://";
export const ADDRESS_FORM = "weighbridge://HOST:PORT, with more schedulers after commas, and /JOB for the job's name";

const FORM = /^weighbridge:\/\/([^/?#@\s]+)(?:\/([^/?#]*))?$/;
const HAS_PORT = /^(?:\[[^\]]*\]|[^:[\]]*):/;

/** The keys of the configuration that an address sets; it sets `job` only if it names one. */
export type SchedulerUrl = Required<Pick<NodeConfigOptions, "schedulers" | "schedulerHost" | "schedulerPort">> &
  Pick<NodeConfigOptions, "job">;

/** Throws BAD_ARGUMENT. */
export function readSchedulerUrl(url: string): SchedulerUrl {
  const [, hosts, path = ""] = FORM.exec(url) ?? [];
  const withPorts = hosts?.split(",").map((text) => (HAS_PORT.test(text) ? text : `${text}:${SCHEDULER_PORT}`));
  const read = hostPorts().read(withPorts);
  const [first] = hostPortsOf(read?.value);
  if (read === undefined || first === undefined) throw badArgument(`the address must be ${ADDRESS_FORM}, got ${showValue(url)}`);
  const schedulers = { schedulers: read.value, schedulerHost: first.host, schedulerPort: first.port };
  return path === "" ? schedulers : { ...schedulers, job: decoded(path, url) };
}

function decoded(path: string, url: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw badArgument(`the job's name in the address has a % that is no escape, got ${showValue(url)}`);
  }
}
