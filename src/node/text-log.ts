// text-log — log lines for people, on standard error: time, level, node, message, and the fields as name=value.

import { format } from "node:util";
import type { Log, LogFields } from "../base/log.ts";
import type { LogLevel } from "./config/node-config.ts";

const LEVELS: readonly LogLevel[] = ["silent", "error", "warn", "info", "debug"];

export type TextLogOptions = {
  readonly level: LogLevel;
  /** The name of the node; called for each line, because a node learns its rank late. */
  readonly who: () => string;
  readonly write?: (line: string) => void;
};

export function textLog({ level, who, write = (line) => void process.stderr.write(line) }: TextLogOptions): Log {
  const limit = LEVELS.indexOf(level);
  const at = (lineLevel: LogLevel) => {
    if (LEVELS.indexOf(lineLevel) > limit) return () => {};
    return (message: string, fields: LogFields = {}): void => {
      const time = new Date().toISOString().slice(11, 23);
      write(`${time} ${lineLevel.padEnd(5)} ${who()}: ${message}${fieldsText(fields)}\n`);
    };
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

function fieldsText(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}=${typeof value === "string" && /[\s"]/.test(value) ? JSON.stringify(value) : format("%s", value)}`)
    .join("");
}
