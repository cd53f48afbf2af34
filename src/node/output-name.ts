// output-name — nodes as the output of commands names them: "server/0 ready  127.0.0.1:44411  pid 24961". Errors and
// log lines of the library, which programs read too, say "server 0".

import { hostname } from "node:os";
import { nameOf, type Role, rankOf, roleOf } from "../wire/node-id.ts";

/** "b.example:24961": nodeLabel of config/node-addresses.ts. */
const LABEL = /^(?:(\S+):)?(\d+)$/;

/** "scheduler", "server/0", "standby/1"; `ranks` may be a range, "0-3". */
export function outputName(role: Role, ranks: number | string): string {
  return role === "scheduler" ? role : `${role}/${ranks}`;
}

/** The same of a node's number; a guest's is its name. */
export function outputNameOf(id: number): string {
  const role = roleOf(id);
  return role === "guest" ? nameOf(id) : outputName(role, rankOf(id));
}

/** What `nameOf` calls "server 0". */
export function asOutputName(name: string): string {
  return name.replace(/^(server|worker|standby) (?=\d)/, "$1/");
}

/** An address without the scheme of TCP. */
export function outputAddress(address: string): string {
  return address.replace(/^tcp:\/\//, "");
}

/** The host of a node with this label; of a label that a user chose, this one. */
export function hostOf(label: string): string {
  return LABEL.exec(label)?.[1] ?? hostname();
}

/** The process behind a label: "pid 24961", on another host than this "pid 24961 on b.example"; or a label as it is. */
export function processText(label: string, host: string = hostname()): string {
  const [, where = host, pid] = LABEL.exec(label) ?? [];
  if (pid === undefined) return label;
  return where === host ? `pid ${pid}` : `pid ${pid} on ${where}`;
}
