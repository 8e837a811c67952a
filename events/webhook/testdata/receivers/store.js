// store appends the id of an event, or "undefined" for what is none, to a file.
import { appendFile } from 'node:fs/promises'

export const store = event => appendFile(process.env.STORED, `${event?.id}\n`)
