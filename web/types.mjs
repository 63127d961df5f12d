// TypeScript types of the schemas in the API's description.

function type(schema) {
  if (!schema || typeof schema !== "object") return "unknown";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(type).join(" | ");
  const names = [schema.type].flat();
  return names.map((name) => one(name, schema)).join(" | ");
}

function one(name, schema) {
  switch (name) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return name;
    case "array": {
      const item = type(schema.items);
      return item.includes("|") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      if (schema.properties) return object(schema);
      return `Record<string, ${schema.additionalProperties ? type(schema.additionalProperties) : "unknown"}>`;
    default:
      // A field without a unit: a text, a flag or a number.
      return "any";
  }
}

function object(schema) {
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties).map(([name, of]) => `  ${JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${type(of)};`);
  return `{\n${members.join("\n")}\n}`;
}

export function types(document) {
  const parts = Object.entries(document.components.schemas).map(([name, schema]) => `export type ${name} = ${type(schema)};`);
  return `// Generated from openapi.json by build.mjs. Do not edit.\n\n${parts.join("\n\n")}\n`;
}
