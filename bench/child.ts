// child — the driver's side of the control channel: one process running a bench script, asked by name and answered
// once.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type CommandLine, type Protocol, REPLY_MARK, type ReplyLine } from "./command-loop.ts";

/** "free": the kernel places the threads. "pinned": every process shares core 1, so no idle core has to wake up. */
export type Regime = "free" | "pinned";

export type ChildOptions = {
  readonly name: string;
  readonly script: URL;
  readonly regime: Regime;
  readonly env?: Readonly<Record<string, string>>;
  /** For Node itself. */
  readonly nodeArgs?: readonly string[];
};

const REPLY_TIMEOUT_MS = 60_000;
const EXIT_TIMEOUT_MS = 5_000;
const PINNED_CORE = "1";

type Waiting = { readonly resolve: (reply: unknown) => void; readonly reject: (error: Error) => void };

export class Child<P extends Protocol> {
  readonly #name: string;
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #exited: Promise<unknown>;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 0;

  constructor({ name, script, regime, env, nodeArgs = [] }: ChildOptions) {
    const command = [...(regime === "pinned" ? ["taskset", "-c", PINNED_CORE] : []), process.execPath, ...nodeArgs, fileURLToPath(script)];
    this.#name = name;
    this.#process = spawn(command[0]!, command.slice(1), { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...env } });
    this.#exited = once(this.#process, "exit").catch((error: Error) => this.#failAll(error));
    this.#process.on("exit", (code, signal) => this.#failAll(new Error(`${name} ended early (exit code ${code}, signal ${signal})`)));
    this.#process.stdin.on("error", (error) => this.#failAll(error)); // the exit above tells the rest of the story
    createInterface({ input: this.#process.stdout }).on("line", (line) => this.#onLine(line));
  }

  /** Rejects when the child fails, ends or does not answer within `timeoutMs`. */
  ask<N extends keyof P & string>(name: N, request: P[N]["request"], timeoutMs: number = REPLY_TIMEOUT_MS): Promise<P[N]["reply"]> {
    const id = this.#nextId++;
    const line: CommandLine = { id, name, request };
    return new Promise<P[N]["reply"]>((resolve, reject) => {
      const timer = setTimeout(() => this.#settle(id)?.reject(new Error(`no answer to ${name} within ${timeoutMs} ms`)), timeoutMs);
      const settled =
        <T>(settle: (value: T) => void) =>
        (value: T): void => {
          clearTimeout(timer);
          settle(value);
        };
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled((error: Error) => reject(this.#blame(error))) });
      this.#process.stdin.write(`${JSON.stringify(line)}\n`);
    });
  }

  /** Closes stdin, which ends the child's command loop; a child that ignores it is killed. */
  async close(): Promise<void> {
    this.#process.stdin.end();
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), EXIT_TIMEOUT_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #onLine(line: string): void {
    if (!line.startsWith(REPLY_MARK)) {
      process.stderr.write(`[${this.#name}] ${line}\n`);
      return;
    }
    const { id, reply, error } = JSON.parse(line.slice(REPLY_MARK.length)) as ReplyLine;
    const waiting = this.#settle(id);
    if (error === undefined) waiting?.resolve(reply);
    else waiting?.reject(new Error(error));
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  #failAll(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #blame(error: Error): Error {
    return new Error(`${this.#name}: ${error.message}`);
  }
}
