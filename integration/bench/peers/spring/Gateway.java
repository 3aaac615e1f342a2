import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;

/** Spring Cloud Gateway as it comes: what it listens on and forwards to are properties. */
@SpringBootConfiguration
@EnableAutoConfiguration
public class Gateway {
    public static void main(String[] args) {
        SpringApplication.run(Gateway.class, args);
    }
}
