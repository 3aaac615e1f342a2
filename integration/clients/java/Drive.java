import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.PartialThinking;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;

/** The drivers of openai-java and langchain4j, in the loops of their READMEs; ../README.md has the protocol. */
public class Drive {
  static final ObjectMapper JSON = new ObjectMapper();

  /** What a program that uses the client has seen of one answer. */
  static class Seen {
    public int id;
    public String text = "", reasoning = "", finish = "";
    public List<String> tools = new ArrayList<>(), details = new ArrayList<>();
    public Map<String, String> error;
    public long ms;

    void fail(String how, Throwable error) {
      this.error = new LinkedHashMap<>();
      this.error.put("how", how);
      this.error.put("type", error.getClass().getSimpleName());
      this.error.put("message", String.valueOf(error.getMessage()));
      this.error.put("code", error instanceof com.openai.errors.OpenAIServiceException e ? e.code().orElse("") : "");
    }
  }

  interface Client {
    void ask(String baseUrl, String prompt, Seen seen) throws Exception;
  }

  static void openai(String baseUrl, String prompt, Seen seen) {
    var client = OpenAIOkHttpClient.builder().baseUrl(baseUrl).apiKey("key").build();
    var params = ChatCompletionCreateParams.builder().model("hermes-agent").addUserMessage(prompt).build();
    try (var stream = client.chat().completions().createStreaming(params)) {
      stream.stream().forEach(chunk -> {
        var tool = chunk._additionalProperties().get("tool");
        if (tool != null && chunk._additionalProperties().containsKey("status")) {
          seen.tools.add(text(tool) + " " + text(chunk._additionalProperties().get("status")));
        }
        chunk.choices().forEach(choice -> {
          choice.delta().content().ifPresent(text -> seen.text += text);
          seen.reasoning += text(choice.delta()._additionalProperties().get("reasoning_content"));
          choice.finishReason().ifPresent(reason -> seen.finish = reason.asString());
        });
      });
    } finally {
      client.close();
    }
  }

  static String text(JsonValue value) {
    return value == null ? "" : value.convert(String.class);
  }

  static void langchain4j(String baseUrl, String prompt, Seen seen) throws Exception {
    var model = OpenAiStreamingChatModel.builder()
        .baseUrl(baseUrl).apiKey("key").modelName("hermes-agent").returnThinking(true).build();
    var done = new CompletableFuture<Void>();
    model.chat(prompt, new StreamingChatResponseHandler() {
      @Override
      public void onPartialResponse(String text) {
        seen.text += text;
      }

      @Override
      public void onPartialThinking(PartialThinking thinking) {
        seen.reasoning += thinking.text();
      }

      @Override
      public void onCompleteResponse(ChatResponse response) {
        var reason = response.metadata().finishReason();
        seen.finish = reason == null ? "" : reason.name().toLowerCase();
        done.complete(null);
      }

      @Override
      public void onError(Throwable error) {
        seen.fail("callback", error);
        done.complete(null);
      }
    });
    done.get();
  }

  public static void main(String[] args) throws Exception {
    Client client = args[0].equals("openai-java") ? Drive::openai : Drive::langchain4j;
    say(Map.of("version", version(args[0])));
    var threads = Executors.newCachedThreadPool();
    for (var in = new Scanner(System.in, "UTF-8"); in.hasNextLine(); ) {
      JsonNode c = JSON.readTree(in.nextLine());
      threads.submit(() -> {
        var seen = new Seen();
        long begin = System.currentTimeMillis();
        try {
          client.ask(c.get("base_url").asText(), c.get("prompt").asText(), seen);
        } catch (Throwable error) {
          seen.fail("exception", error);
        }
        seen.id = c.get("id").asInt();
        seen.ms = System.currentTimeMillis() - begin;
        say(seen);
      });
    }
    System.exit(0);
  }

  /** The version of an archive in the class path. */
  static String version(String name) {
    var file = Pattern.compile("\\b" + name + "-(\\d[\\d.]*)\\.jar").matcher(System.getProperty("java.class.path"));
    return file.find() ? file.group(1) : "";
  }

  static synchronized void say(Object value) {
    try {
      System.out.write((JSON.writeValueAsString(value) + "\n").getBytes("UTF-8"));
      System.out.flush();
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
