// Runs fauxqs on the port in the first argument, on this machine only. node:sqlite, which Node.js has from version 22 on,
// is left out: fauxqs needs it only to keep queues on disk.
import { register } from 'node:module'
import net from 'node:net'

const hooks = `export async function resolve(name, context, next) {
  return name === 'node:sqlite'
    ? { url: 'data:text/javascript,export class DatabaseSync {}', shortCircuit: true }
    : next(name, context)
}`
register('data:text/javascript,' + encodeURIComponent(hooks))
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (options, ...rest) {
  return listen.call(this, { ...options, host: '127.0.0.1' }, ...rest)
}
const { startFauxqs } = await import('fauxqs')
await startFauxqs({ port: Number(process.argv[2]), logger: false })
