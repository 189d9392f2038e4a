/* A Worker for pages that are opened from a file, where a browser refuses to start one. It loads the script into a
   hidden frame and passes messages between the page and that frame. The search of the site needs it. */
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #isReady;

    constructor(url) {
      super();
      this.onmessage = null;
      this.onerror = null;
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.#tell(new MessageEvent("message", { data: structuredClone(data) }));
      inside.importScripts = async (...urls) => {
        for (const each of urls) await this.#load(each);
      };
      inside.addEventListener("error", (event) => this.#tell(new ErrorEvent("error", { message: event.message })));
      this.#isReady = this.#load(url);
    }

    postMessage(data) {
      const message = new MessageEvent("message", { data: structuredClone(data) });
      this.#isReady.then(() => this.#frame.contentWindow.dispatchEvent(message));
    }

    terminate() {
      this.#frame.remove();
    }

    #tell(event) {
      this.dispatchEvent(event);
      this[`on${event.type}`]?.(event);
    }

    #load(url) {
      const script = this.#frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href).href;
      return new Promise((loaded, failed) => {
        script.onload = loaded;
        script.onerror = () => failed(new Error(`cannot load ${script.src}`));
        this.#frame.contentDocument.body.append(script);
      });
    }
  };
}
