// processes — real processes for end-to-end tests: started by the command line, watched by what they write, and all
// gone at the end of a test. Every wait has a deadline, and a failure shows everything the process wrote.

import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const ROOT: string = fileURLToPath(new URL("../..", import.meta.url));
/** The package as `npm test` has built it (scripts/check.mjs). Without it tests run the sources, which start slower. */
export const BUILD: string | undefined = process.env.BUILT_PACKAGE;
export const COMMAND: string = join(BUILD ?? ROOT, "bin/weighbridge.mjs");
/** Has a process run the sources, not what is built of them. */
const SOURCES = { NODE_OPTIONS: "--conditions=@weighbridge/source" };
/** The command of the repository: it has the bench, and is what `npm start` runs. */
const REPOSITORY_COMMAND = join(ROOT, "bin/weighbridge.mjs");
/**
 * What it bounds is a hang: on an idle machine nothing takes a tenth of it, and a slow or busy one may take ten times
 * as long. It is shorter than what a test may take (scripts/check.mjs), so that a failure shows what the process wrote.
 */
export const DEADLINE_MS = 120_000;
const POLL_MS = 20;
/** Of this file's tests alone: a scheduler would go on with the state of a failed job that had the same port. */
const STATE_HOME = mkdtempSync(join(tmpdir(), "weighbridge-test-state-"));
process.once("exit", () => rmSync(STATE_HOME, { recursive: true, force: true }));

type Ended = { readonly code: number | null; readonly signal: NodeJS.Signals | null };
type SpawnOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly node?: string;
  readonly cwd?: string;
  /** Whether it and its children are a group of their own, for `signalGroup`. */
  readonly isGroup?: boolean;
};

export function script(name: string): string {
  return fileURLToPath(new URL(`./scripts/${name}.ts`, import.meta.url));
}

/** Polls until `condition` gives something; fails the test after the deadline. */
export async function until<T>(condition: () => T | undefined | false, what: string, timeoutMs: number = DEADLINE_MS): Promise<T> {
  for (const giveUpAt = performance.now() + timeoutMs; ; await sleep(POLL_MS)) {
    const value = condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > giveUpAt) assert.fail(`after ${timeoutMs} ms still waiting for ${what}`);
  }
}

/** Fails the test if `condition` becomes true within the time. */
export async function never(condition: () => boolean, what: string, durationMs: number): Promise<void> {
  for (const doneAt = performance.now() + durationMs; performance.now() < doneAt; await sleep(POLL_MS)) {
    if (condition()) assert.fail(what);
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export class Running {
  readonly name: string;
  stdout = "";
  stderr = "";
  readonly #child: ChildProcessWithoutNullStreams;
  #ended: Ended | undefined;

  constructor(name: string, child: ChildProcessWithoutNullStreams) {
    this.name = name;
    this.#child = child;
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    child.stdin.on("error", () => {}); // It may end before it was told to.
    child.once("close", (code, signal) => {
      this.#ended = { code, signal };
    });
  }

  get pid(): number {
    assert.ok(this.#child.pid !== undefined);
    return this.#child.pid;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** How often it wrote this to its standard output. */
  count(pattern: RegExp): number {
    return [...this.stdout.matchAll(new RegExp(pattern, "gm"))].length;
  }

  /** Waits until standard output has `times` matches; returns the last of them. */
  async says(pattern: RegExp, times = 1, timeoutMs: number = DEADLINE_MS): Promise<RegExpMatchArray> {
    const found = (): RegExpMatchArray | undefined | false => {
      const matches = [...this.stdout.matchAll(new RegExp(pattern, "gm"))];
      if (matches.length >= times) return matches[times - 1];
      return (
        !this.isRunning && this.#ended !== undefined && assert.fail(`${this.name} ended before it said ${pattern}\n${this.transcript}`)
      );
    };
    try {
      return await until(found, `${this.name} to say ${pattern}`, timeoutMs);
    } catch (error) {
      throw new Error(`${String(error)}\n${this.transcript}`, { cause: error });
    }
  }

  async ends(timeoutMs: number = DEADLINE_MS): Promise<Ended> {
    try {
      return await until(() => this.#ended, `${this.name} to end`, timeoutMs);
    } catch (error) {
      throw new Error(`${String(error)}\n${this.transcript}`, { cause: error });
    }
  }

  /** Ends well. */
  async succeeds(timeoutMs?: number): Promise<void> {
    const { code, signal } = await this.ends(timeoutMs);
    assert.equal(code, 0, `${this.name} ended with ${code ?? signal}\n${this.transcript}`);
  }

  /** Ends with an exit code of 1 and this on its standard error. */
  async fails(pattern: RegExp, timeoutMs?: number): Promise<void> {
    await this.#endsWith(1, pattern, timeoutMs);
  }

  /** Starts nothing: ends with an exit code of 2 and this on its standard error. */
  async refuses(pattern: RegExp, timeoutMs?: number): Promise<void> {
    await this.#endsWith(2, pattern, timeoutMs);
  }

  async #endsWith(expected: number, pattern: RegExp, timeoutMs: number | undefined): Promise<void> {
    const { code, signal } = await this.ends(timeoutMs);
    assert.equal(code, expected, `${this.name} ended with ${code ?? signal}\n${this.transcript}`);
    assert.match(this.stderr, pattern, this.transcript);
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) process.kill(this.pid, signal);
  }

  /** The same for its children too. */
  signalGroup(signal: NodeJS.Signals): void {
    if (this.isRunning) process.kill(-this.pid, signal);
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }

  /** Writes a line to its standard input. */
  tell(line: string): void {
    this.#child.stdin.write(`${line}\n`);
  }

  /** Our scripts take the end of their standard input as the word to finish. */
  endInput(): void {
    this.#child.stdin.end();
  }

  get transcript(): string {
    const [head, foot] = [`--- ${this.name}: standard output`, `--- ${this.name}: standard error`];
    return `${head}\n${this.stdout}${foot}\n${this.stderr}---`;
  }
}

/** The processes of one test. */
export class Processes implements AsyncDisposable {
  readonly #running: Running[] = [];

  /** `weighbridge ...args` */
  weighbridge(args: readonly (string | number)[], { node = process.execPath, ...options }: SpawnOptions = {}): Running {
    return this.run(node, [COMMAND, ...args.map(String)], options);
  }

  /** The same from the sources. */
  fromSources(args: readonly (string | number)[], { cwd = ROOT }: SpawnOptions = {}): Running {
    return this.run(process.execPath, [REPOSITORY_COMMAND, ...args.map(String)], { env: SOURCES, cwd });
  }

  /**
   * The same in a shell: `weighbridge ...args` and what follows it, such as a pipe. Ends with the code of the first
   * command that does not end with 0.
   */
  shell(args: readonly (string | number)[], rest: string): Running {
    const words = [process.execPath, COMMAND, ...args].map((word) => `'${word}'`).join(" ");
    return this.run("bash", ["-c", `set -o pipefail; ${words} ${rest}`]);
  }

  run(command: string, args: readonly string[], { env = {}, cwd = ROOT, isGroup = false }: SpawnOptions = {}): Running {
    const child = spawn(command, args, { cwd, env: { ...cleanEnvironment(), ...env }, detached: isGroup });
    const running = new Running(args.slice(1).join(" "), child);
    this.#running.push(running);
    return running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.map((running) => running.kill()));
  }
}

/** Nothing of whoever runs the tests may configure the nodes. */
function cleanEnvironment(): Record<string, string> {
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = join(tmpdir(), "node-compile-cache") } = process.env;
  // Scripts of tests, and examples, import the same package as the command that runs them.
  return { PATH, HOME, TMPDIR: tmpdir(), XDG_STATE_HOME: STATE_HOME, NODE_COMPILE_CACHE, ...(BUILD === undefined ? SOURCES : {}) };
}
