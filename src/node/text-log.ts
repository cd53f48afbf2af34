// text-log — log lines for people, on standard error: time, level, node, message, and the fields as name=value.

import { format } from "node:util";
import { type Log, type LogFields, type LogLevel, leveledLog } from "../base/log.ts";

export type TextLogOptions = {
  readonly level: LogLevel;
  /** The name of the node; called for each line, because a node learns its rank late. */
  readonly who: () => string;
  readonly write?: (line: string) => void;
};

export function textLog({ level: limit, who, write = (line) => void process.stderr.write(line) }: TextLogOptions): Log {
  return leveledLog(limit, (level, message, fields) => {
    const time = new Date().toISOString().slice(11, 23);
    write(`${time} ${level.padEnd(5)} ${who()}: ${message}${fieldsText(fields)}\n`);
  });
}

function fieldsText(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}=${typeof value === "string" && /[\s"]/.test(value) ? JSON.stringify(value) : format("%s", value)}`)
    .join("");
}
