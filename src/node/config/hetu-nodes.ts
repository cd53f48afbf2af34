// hetu-nodes — `nodes: [{ host, servers, workers, chief }]`, the file of Hetu's `heturun`, turned into counts.
// Only the case of one local machine is supported: there is nothing yet that starts processes on another.

import { hostname } from "node:os";
import { z } from "zod";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { unknownName } from "./known-names.ts";
import { isLoopback, type NetworkInterfaces } from "./network-interface.ts";

export type NodeCounts = { readonly serverCount: number; readonly workerCount: number };
export type CountedNodes = { readonly counts: NodeCounts | undefined; readonly problems: readonly ConfigProblem[] };

const COUNT = z.int().min(0).default(0);
const MACHINE = z.strictObject({ host: z.string().min(1), servers: COUNT, workers: COUNT, chief: z.boolean().default(false) });
const MACHINES = z.array(MACHINE).min(1);
const EXPECTED = "a list of { host: text, servers: count, workers: count, chief: true or false }";
const SEVERAL =
  "start one process per node yourself, each with the same schedulerHost and schedulerPort (or a file with `shared` and one section per process)";

export function countNodes(nodes: unknown, origin: string, interfaces: NetworkInterfaces): CountedNodes {
  const parsed = MACHINES.safeParse(nodes);
  if (!parsed.success) return { counts: undefined, problems: parsed.error.issues.flatMap((issue) => problemsOf(issue, nodes, origin)) };
  const machines = parsed.data;
  const refuse = (problem: Omit<ConfigProblem, "origin">): CountedNodes => ({ counts: undefined, problems: [{ ...problem, origin }] });

  const chiefs = machines.filter((machine) => machine.chief).map((machine) => machine.host);
  if (chiefs.length !== 1) {
    const found = chiefs.length === 0 ? "none" : chiefs.join(", ");
    return refuse({ subject: "nodes", expected: "exactly one entry with chief: true", found, fix: "mark the machine of the scheduler" });
  }
  const [machine] = machines;
  if (machine === undefined || machines.length > 1 || !isLocal(machine.host, interfaces)) {
    const found = machines.map(({ host }) => host).join(", ");
    return refuse({
      subject: "nodes",
      expected: "one entry for this machine; several machines are not supported yet",
      found,
      fix: SEVERAL,
    });
  }
  return { counts: { serverCount: machine.servers, workerCount: machine.workers }, problems: [] };
}

function problemsOf(issue: z.core.$ZodIssue, nodes: unknown, origin: string): ConfigProblem[] {
  const subject = `nodes${issue.path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`)).join("")}`;
  if (issue.code === "unrecognized_keys") {
    const candidates = Object.keys(MACHINE.shape).map((key) => `${subject}.${key}`);
    return issue.keys.map((key) => unknownName({ typed: `${subject}.${key}`, origin, noun: "part of nodes", candidates }));
  }
  const found = `${quote(issue.path.reduce(at, nodes))} (${issue.message})`;
  return [{ subject, origin, expected: EXPECTED, found, fix: `correct ${subject}` }];
}

function at(value: unknown, step: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, step) : undefined;
}

function isLocal(host: string, interfaces: NetworkInterfaces): boolean {
  const addresses = Object.values(interfaces).flatMap((list) => list ?? []);
  return isLoopback(host) || host === hostname() || addresses.some(({ address }) => address === host);
}
