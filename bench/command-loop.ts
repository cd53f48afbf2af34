// command-loop — the child's side of the bench's control channel: JSON commands in on stdin, replies out on stdout, one
// line each. Control traffic flows between measurements, never during one. A closed stdin ends the process, so that no
// child outlives the driver.

import { createInterface } from "node:readline";

/** Marks a reply among whatever else a process prints. */
export const REPLY_MARK = "@bench ";

/** The commands a child understands: name → what is sent and what comes back. All of it is plain JSON. */
export type Protocol = { readonly [name: string]: { readonly request: unknown; readonly reply: unknown } };

export type Handlers<P extends Protocol> = {
  readonly [N in keyof P]: (request: P[N]["request"]) => P[N]["reply"] | Promise<P[N]["reply"]>;
};

export type CommandLine = { readonly id: number; readonly name: string; readonly request: unknown };
export type ReplyLine = { readonly id: number; readonly reply?: unknown; readonly error?: string };

/** Serves commands until stdin ends. Commands may overlap; each reply carries its command's id. */
export function serveCommands<P extends Protocol>(handlers: Handlers<P>): void {
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => void answer(handlers, JSON.parse(line) as CommandLine));
  lines.on("close", () => process.exit(0));
}

async function answer<P extends Protocol>(handlers: Handlers<P>, { id, name, request }: CommandLine): Promise<void> {
  let line: ReplyLine;
  try {
    const handler = handlers[name];
    if (handler === undefined) throw new Error(`no command named ${name}`);
    line = { id, reply: await handler(request) };
  } catch (error) {
    line = { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  process.stdout.write(`${REPLY_MARK}${JSON.stringify(line)}\n`);
}
