// logger-log — log lines for a logger that a user has handed in, in place of those for people on standard error.
//
// Invariants:
//   LoggerLog.L1. A logger that throws breaks nothing of ours. The first time is told as a warning of the process,
//       because there is no other place left.

import { badArgument, reasonOf, showValue } from "../base/errors.ts";
import { type Log, type Logger, type LogLevel, leveledLog } from "../base/log.ts";
import { type TextLogOptions, textLog } from "./text-log.ts";

const METHODS: readonly (keyof Log)[] = ["debug", "info", "warn", "error"];

/** Throws BAD_ARGUMENT unless this is undefined, or has a method for each level. */
export function checkLogger(logger: unknown): void {
  if (logger === undefined) return;
  const isObject = typeof logger === "object" || typeof logger === "function";
  if (!isObject || logger === null) throw badArgument(`logger must be an object with ${METHODS.join(", ")}, got ${showValue(logger)}`);
  const missing = METHODS.filter((name) => typeof Reflect.get(logger, name) !== "function");
  if (missing.length > 0)
    throw badArgument(`logger must have the methods ${METHODS.join(", ")}, called as pino's; it has no ${missing.join(", ")}`);
}

/** The level from which on this logger gets lines where nothing sets `logLevel`. */
export function defaultLevelOf(logger: Logger): LogLevel {
  return logger.level === undefined ? "info" : "debug";
}

/** Where the lines of a node go: to this logger, or else to standard error. */
export function nodeLog(logger: Logger | undefined, lines: Pick<TextLogOptions, "level" | "who">): Log {
  return logger === undefined ? textLog(lines) : loggerLog(logger, lines);
}

export function loggerLog(logger: Logger, { level: limit, who }: Pick<TextLogOptions, "level" | "who">): Log {
  let hasFailed = false;
  return leveledLog(limit, (level, message, fields) => {
    const known = Object.entries(fields).filter(([, value]) => value !== undefined);
    try {
      logger[level]({ weighbridge: who(), ...Object.fromEntries(known) }, message);
    } catch (thrown) {
      if (hasFailed) return; // LoggerLog.L1
      hasFailed = true;
      process.emitWarning(`the logger has thrown: ${reasonOf(thrown)}; the line was: ${message}`, "WeighbridgeLoggerWarning");
    }
  });
}
