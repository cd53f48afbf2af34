// error-text — an error of ours in a line or a few, for a terminal.

/** By shape, as the script may have loaded another copy of the package. */
export type OurError = Error & { readonly name: "WeighbridgeError"; readonly code: string };

export function isOurs(thrown: unknown): thrown is OurError {
  return thrown instanceof Error && thrown.name === "WeighbridgeError" && typeof (thrown as { code?: unknown }).code === "string";
}

/** A line of ours, as a launcher reads it. */
export const OUR_LINE: RegExp = /^(?:\[[^\]]*\] )?weighbridge: /;

export function errorText({ code, message }: OurError): string {
  return `weighbridge: ${code}: ${message}`;
}
