// node-tag — the mark at the head of a node's lines: "[worker 0]".

import { styleText } from "node:util";
import type { Role } from "../config/node-config.ts";

type Color = Parameters<typeof styleText>[0];

const COLORS: Readonly<Record<Role, readonly Color[]>> = {
  scheduler: ["magenta"],
  server: ["yellow", "yellowBright"],
  worker: ["cyan", "green", "blue", "cyanBright", "greenBright", "blueBright"],
};
/** At the head of a line from a process of several nodes (server-threads.ts). */
const THREAD_TAG = /^\[server (\d+)\] /;

export function nodeTag(role: Role, rank: number): string {
  return role === "scheduler" ? "[scheduler]" : `[${role} ${rank}]`;
}

/** Puts the tag before a line, in colour when `stream` is a terminal that shows it. */
export function tagLines(
  { name, role, ranks }: { readonly name: string; readonly role: Role; readonly ranks: readonly number[] },
  stream: NodeJS.WriteStream,
): (line: string) => string {
  const colored = (text: string, rank: number): string => {
    const colors = COLORS[role];
    return styleText(colors[rank % colors.length] ?? "white", text, { stream });
  };
  const [firstRank = 0] = ranks;
  const tag = colored(`[${name}]`, firstRank);
  if (ranks.length === 1) return (line) => `${tag} ${line}`;
  return (line) => {
    const rank = THREAD_TAG.exec(line)?.[1];
    return rank === undefined ? `${tag} ${line}` : line.replace(THREAD_TAG, `${colored(nodeTag(role, Number(rank)), Number(rank))} `);
  };
}
