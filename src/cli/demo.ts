import { Command } from "commander";
import type { Invocation } from "./invocation.ts";
export function demoCommand(_invocation: Invocation): Command {
  return new Command("demo");
}
