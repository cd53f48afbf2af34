// log — a node's log lines. One method per level; fields are plain data. node/text-log.ts writes them for people,
// node/logger-log.ts passes them to a logger that a user has handed in.

/** What a log line says in addition to its message: plain values by name. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Where a node's log lines go. */
export type Log = {
  /** For what explains others. */
  debug(message: string, fields?: LogFields): void;
  /** For what happens. */
  info(message: string, fields?: LogFields): void;
  /** For what may need attention. */
  warn(message: string, fields?: LogFields): void;
  /** For what has failed. */
  error(message: string, fields?: LogFields): void;
};

/** The lowest level that is logged. */
export type LogLevel = "silent" | "error" | "warn" | "info" | "debug";

/**
 * A logger of a user's own, which is called as pino's is: `logger.info(fields, message)`. Each line has the field
 * `weighbridge`, the node that says it: "worker 0".
 */
export type Logger = {
  /** For what explains others. */
  debug(fields: LogFields, message: string): void;
  /** For what happens. */
  info(fields: LogFields, message: string): void;
  /** For what may need attention. */
  warn(fields: LogFields, message: string): void;
  /** For what has failed. */
  error(fields: LogFields, message: string): void;
  /** On a logger that drops lines by itself, as pino's does: it then gets all lines, unless `logLevel` is given. */
  readonly level?: unknown;
};

/** Drops every line. */
export const SILENT_LOG: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** From the lowest to the highest number of lines. */
export const LOG_LEVELS: readonly [LogLevel, ...LogLevel[]] = ["silent", "error", "warn", "info", "debug"];

/** A log that calls `write` with each line of this level or a more severe one. */
export function leveledLog(limit: LogLevel, write: (level: keyof Log, message: string, fields: LogFields) => void): Log {
  const at = (level: keyof Log): Log[keyof Log] =>
    LOG_LEVELS.indexOf(level) > LOG_LEVELS.indexOf(limit) ? () => {} : (message, fields = {}) => write(level, message, fields);
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
