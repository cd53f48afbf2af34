// hetu-nodes — `nodes: [{ host, servers, workers, chief }]`, the file of Hetu's `heturun`, turned into counts.
// Only the case of one local machine is supported: there is nothing yet that starts processes on another.

import { hostname } from "node:os";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { unknownName } from "./known-names.ts";
import { isLoopback, type NetworkInterfaces } from "./network-interface.ts";

export type NodeCounts = { readonly serverCount: number; readonly workerCount: number };
export type CountedNodes = { readonly counts: NodeCounts | undefined; readonly problems: readonly ConfigProblem[] };

type Machine = { readonly host: string; readonly servers: number; readonly workers: number; readonly chief: boolean };

/** What each part of an entry may be; all but the host may be left out. */
const PARTS: Readonly<Record<keyof Machine, (value: unknown) => boolean>> = {
  host: (value) => typeof value === "string" && value !== "",
  servers: isCount,
  workers: isCount,
  chief: (value) => value === undefined || typeof value === "boolean",
};
const EXPECTED = "a list of { host: text, servers: count, workers: count, chief: true or false }";
const SEVERAL =
  "start one process per node yourself, each with the same schedulerHost and schedulerPort (or a file with `shared` and one section per process)";

export function countNodes(nodes: unknown, origin: string, interfaces: NetworkInterfaces): CountedNodes {
  const wrong = problemsOf(nodes, origin);
  if (wrong.length > 0) return { counts: undefined, problems: wrong };
  const machines = (nodes as readonly Partial<Machine>[]).map(({ host = "", servers = 0, workers = 0, chief = false }) => ({
    host,
    servers,
    workers,
    chief,
  }));
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

function isCount(value: unknown): boolean {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
}

function problemsOf(nodes: unknown, origin: string): ConfigProblem[] {
  const wrong = (subject: string, found: unknown): ConfigProblem => ({
    ...{ subject, origin, expected: EXPECTED, found: quote(found), fix: `correct ${subject}` },
  });
  if (!Array.isArray(nodes) || nodes.length === 0) return [wrong("nodes", nodes)];
  return nodes.flatMap((machine: unknown, i) => {
    const subject = `nodes[${i}]`;
    if (typeof machine !== "object" || machine === null || Array.isArray(machine)) return [wrong(subject, machine)];
    const candidates = Object.keys(PARTS).map((part) => `${subject}.${part}`);
    const unknown = Object.keys(machine)
      .filter((part) => !Object.hasOwn(PARTS, part))
      .map((part) => unknownName({ typed: `${subject}.${part}`, origin, noun: "part of nodes", candidates }));
    const broken = Object.entries(PARTS)
      .filter(([part, fits]) => !fits(Reflect.get(machine, part)))
      .map(([part]) => wrong(`${subject}.${part}`, Reflect.get(machine, part)));
    return [...unknown, ...broken];
  });
}

function isLocal(host: string, interfaces: NetworkInterfaces): boolean {
  const addresses = Object.values(interfaces).flatMap((list) => list ?? []);
  return isLoopback(host) || host === hostname() || addresses.some(({ address }) => address === host);
}
